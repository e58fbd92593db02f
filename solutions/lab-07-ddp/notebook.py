# %% [markdown]
# # Lab 07: data parallel training
#
# **One device trains too slowly. How do several train one model, and how do you know that it is still the same run?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the [lab page](../../labs/lab-07-ddp.md) beside this notebook. `run_world(f, 2)` calls `f`
# in two processes, whose process group is ready, and hands back what each returned. The first call takes some seconds,
# since it loads torch once for all ranks to come.

# %%
# %matplotlib inline
import math
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, AdamW
from torch.profiler import record_function
from torch.utils.data import DistributedSampler

from rankzero.curriculum import find_lab
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.tcp_bytes import tcp_bytes_sent
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.rank_timeline import plot_rank_timeline, record_spans
from rankzero.learn.runs import plots
from rankzero.learn.runs.phase_timer import PhaseTimer
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("07").import_starter()  # the functions of train_ddp.py, not copies of them
train_step, first_gradient, my_rows = starter.train_step, starter.first_gradient, starter.my_rows
corpus = load_corpus()
config = GPTConfig(corpus.vocab_size)


# %%
def fresh():
    """Lab 02's model, the same in every process."""
    torch.manual_seed(0)
    return GPT(config)


def batch(step):
    """Lab 02's batch of a step, whole: 12 sequences of 64 characters."""
    return random_batch(corpus.train, step=step, seed=0, batch_size=12, block_size=64)


def hello():
    return f"rank {dist.get_rank()} of {dist.get_world_size()} has rows {tuple(my_rows(x, y)[0].shape)}"


x, y = batch(step=0)
print(run_world(hello, 3))

# %% [markdown]
# ## 1. How equal is equal?
#
# Each rank computes the gradient of all 12 rows alone, and then through DDP with its own rows. **Predict** in how many
# decimal digits the two agree, where they differ most: in float64 and in float32, on 2 ranks, and in float64 on 4.

# %%
digits_float64 = 15  # predict: digits
digits_float32 = 6.5  # predict: digits
digits_on_four = 15  # predict: digits


def apart(dtype):
    whole = first_gradient(fresh(), x, y, dtype, parallel=False)
    mine = first_gradient(fresh(), *my_rows(x, y), dtype, parallel=True)
    return ((mine - whole).abs().max() / whole.abs().max()).item()


def digits(dtype, ranks):
    return -math.log10(max(run_world(apart, ranks, dtype)))


compare(digits_float64, digits(torch.float64, 2), "digits", of="float64, 2 ranks")
compare(digits_float32, digits(torch.float32, 2), "digits", of="float32, 2 ranks")
compare(digits_on_four, digits(torch.float64, 4), "digits", of="float64, 4 ranks")

# %% [markdown]
# **Explain**: DDP sums over the ranks and divides by their number. Why is that the batch's gradient? When would it not
# be?

# %% [markdown] tags=["answer"]
# Each rank's loss is a mean over its own tokens, and all ranks have equally many. A mean of equal parts' means is the
# mean of all, and so are the gradients. With unequal numbers of tokens, ranks with few would weigh too much; with
# BatchNorm the loss of a token would depend on the rank it is on.

# %% [markdown]
# ## 2. What is handed over
#
# The model has 808,064 weights in float32. **Predict**: the bytes of gradients that a rank hands over in a step, and
# the number of all-reduces in step 1 and in step 2, the loss's own included.

# %%
gradient_bytes = 4 * 808_064  # predict: bytes
calls_in_step_1 = 2  # predict: all-reduces
calls_in_step_2 = 3  # predict: all-reduces


def three_steps():
    model = fresh()
    parallel, optimizer, told = DistributedDataParallel(model), AdamW(model.parameters()), []
    for _ in range(3):
        with CollectiveCounter() as counter:
            train_step(parallel, optimizer, *my_rows(x, y))
        told.append((counter.in_order(), counter.calls["all_reduce"], counter.bytes["all_reduce"]))
    return told


steps, _ = run_world(three_steps, 2)
if answered(gradient_bytes, calls_in_step_1, calls_in_step_2):
    for number, (words, _, _) in enumerate(steps, start=1):
        print(f"step {number}: {words}")
compare(gradient_bytes, steps[0][2] - 4, "bytes")
compare(calls_in_step_1, steps[0][1], "all-reduces", of="step 1")
compare(calls_in_step_2, steps[1][1], "all-reduces", of="step 2")

# %% [markdown]
# **Explain**: what are the broadcasts of step 2, and why does step 3 have none?

# %% [markdown] tags=["answer"]
# In step 1 DDP does not know in which order backward will complete the gradients: it makes one bucket without a limit.
# During that backward it notes the order. Before the second one it makes its buckets again, in that order, and closes
# the first when it reaches 1 MiB, so that sending starts early, and later ones at 25 MiB. Rank 0's
# order holds for all, and the broadcasts say which it is. After that the buckets stay.

# %% [markdown]
# ## 3. A ring, and what it replaces
#
# gloo's all-reduce sums 4 MiB. The kernel counts what each process has sent over TCP. **Predict** for 4 ranks how many
# MiB a rank sends. Then how many rank 0 would have to send and receive, if all tensors came to it and the sum went
# back.

# %%
sent_by_a_rank = 6  # predict: MiB
through_rank_0 = 24  # predict: MiB

MESSAGE = 4 * 2**20


def sent_so_far():
    return tcp_bytes_sent() if sys.platform == "linux" else math.nan  # other systems do not tell


def by_ring():
    """MiB that this rank puts on the wire for an all-reduce."""
    tensor = torch.ones(MESSAGE // 4)
    dist.barrier()
    before = sent_so_far()
    dist.all_reduce(tensor)
    dist.barrier()
    return (sent_so_far() - before) / 2**20


def through_one():
    """MiB of the messages that this rank sends and receives if rank 0 adds them up."""
    tensor, part = torch.ones(MESSAGE // 4), torch.empty(MESSAGE // 4)
    others = range(1, dist.get_world_size())
    with CollectiveCounter() as counter:
        if dist.get_rank():
            dist.send(tensor, 0)
            dist.recv(tensor, 0)
        else:
            for other in others:
                dist.recv(part, other)
                tensor += part
            for other in others:
                dist.send(tensor, other)
    return (counter.bytes["send"] + counter.bytes["recv"]) / 2**20


worlds = [2, 3, 4]
ring = [max(run_world(by_ring, ranks)) for ranks in worlds]
star = [run_world(through_one, ranks)[0] for ranks in worlds]
compare(sent_by_a_rank, ring[-1], "MiB")
compare(through_rank_0, star[-1], "MiB")

# %%
figure = plots.Figure(figsize=(6, 3.2), layout="constrained")
axes = figure.subplots()
_ = axes.plot(worlds, star, "o-", color=plots.VALIDATION, label="rank 0 adds: in and out of rank 0")
_ = axes.plot(worlds, ring, "o-", color=plots.TRAIN, label="ring: sent by each rank")
_ = axes.axhline(2 * MESSAGE / 2**20, color=plots.TRAIN, linestyle=":", label="the ring's limit, 2 x the tensor")
_ = axes.set(xlabel="ranks", ylabel="MiB", xticks=worlds, ylim=(0, None), title="To sum 4 MiB")
_ = axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure if answered(sent_by_a_rank, through_rank_0) else None

# %% [markdown]
# **Explain**: the ring's bytes hardly grow with K. What does grow?

# %% [markdown] tags=["answer"]
# The number of messages: 2(K - 1) one after another. Each has a cost of its own, whatever its size, so a ring over many
# ranks is slow for small tensors. That is one reason for buckets: few large all-reduces instead of one for each of the
# 27 parameters. (Libraries switch to trees for small messages.)

# %% [markdown]
# ## 4. Hiding it
#
# The same three steps with small buckets, which leave as soon as they are full, and with one bucket for everything.
# **Predict** which part of the communication time lies behind computation, in percent, for each.

# %%
hidden_small = 60  # predict: %
hidden_one = 0  # predict: %


def timed(cap_mb):
    torch.manual_seed(0)
    model = GPT(GPTConfig(corpus.vocab_size, n_layer=6, hidden_dim=192))
    parallel = DistributedDataParallel(model, bucket_cap_mb=cap_mb)
    optimizer = SGD(model.parameters(), lr=0.0)

    def step():
        with record_function("forward"):
            logits = parallel(my_rows(x, y)[0])
            loss = F.cross_entropy(logits.flatten(0, 1), my_rows(x, y)[1].flatten())
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()

    for _ in range(3):
        step()
    dist.barrier()
    with record_spans() as spans:
        step()
    return spans


small, one = run_world(timed, 2, 1), run_world(timed, 2, 1000)


# %%
def hidden(ranks):
    """Percent of the communication's time before backward's last bucket could leave: what computing goes on beside."""
    spans = ranks[0]
    backward = next(span for span in spans if span.name == "backward")
    sent = [span for span in spans if span.name == "all_reduce"]
    last = max(span.start for span in sent)
    covered = sum(min(span.end, last) - min(max(span.start, backward.start), last) for span in sent)
    return 100 * covered / sum(span.end - span.start for span in sent)


compare(hidden_small, hidden(small), "%", of="buckets of 1 MiB")
compare(hidden_one, hidden(one), "%", of="one bucket")
SMALL = "Buckets of 1 MiB: all-reduces start while backward computes"
plot_rank_timeline(small, SMALL) if answered(hidden_small, hidden_one) else None

# %%
ONE = "One bucket: the all-reduce starts when backward has nothing left to compute"
plot_rank_timeline(one, ONE) if answered(hidden_small, hidden_one) else None

# %% [markdown]
# **Explain**: the bar of backward reaches to the end of the last all-reduce in both pictures. Why? On this machine all
# ranks share the cores. What is different on GPUs?

# %% [markdown] tags=["answer"]
# `backward()` returns when the gradients are there, and they are there when the last all-reduce is done: its last part
# is waiting. With small buckets little is left to wait for.
#
# Here adding up the numbers takes the same cores as backward does, so that hiding moves work more than it saves any.
# On GPUs NCCL's kernels run beside backward's, on links that would otherwise be idle, and there the hidden part is
# time won.

# %% [markdown]
# ## 5. The bug that trains
#
# A hook averages what it is handed, which is the parameter. Train 40 steps right and wrong on two ranks. **Predict** by
# how much the mean of the last ten losses differs, and how far apart the two ranks' weights are at the end, in percent
# of the way that they have come.

# %%
loss_differs_by = 0.02  # predict: nats per token
ranks_apart = 5  # predict: %


def trained(right, count=40):
    model = fresh()
    start = torch.cat([p.detach().flatten() for p in model.parameters()])

    def hook(handed):
        dist.all_reduce(handed.data)
        handed.data /= dist.get_world_size()

    if not right:
        for weight in model.parameters():
            _ = weight.register_post_accumulate_grad_hook(hook)
    wrapped = DistributedDataParallel(model) if right else model
    optimizer, losses = AdamW(model.parameters(), lr=1e-3), []
    for step in range(count):
        losses.append(train_step(wrapped, optimizer, *my_rows(*batch(step))).item())
    return losses, torch.cat([p.detach().flatten() for p in model.parameters()]) - start


(right, way), _ = run_world(trained, 2, True)
(wrong, mine), (_, other) = run_world(trained, 2, False)
compare(loss_differs_by, abs(sum(right[-10:]) - sum(wrong[-10:])) / 10, "nats per token")
compare(ranks_apart, 100 * ((mine - other).norm() / way.norm()).item(), "%")

# %%
figure = plots.Figure(figsize=(6, 3.2), layout="constrained")
axes = figure.subplots()
_ = axes.plot(right, color=plots.TRAIN, label="gradients averaged")
_ = axes.plot(wrong, "--", color=plots.VALIDATION, label="weights averaged, by mistake")
_ = axes.set(xlabel="step", ylabel="loss (nats per token)", title="Would you have seen it?")
_ = axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure if answered(loss_differs_by, ranks_apart) else None

# %% [markdown]
# **Explain**: each rank follows its own gradient. Why does it train at all? What would show the bug?

# %% [markdown] tags=["answer"]
# The weights are averaged in the next backward, so that the ranks never get further apart than one update; the mean of
# their updates is nearly the update by the mean gradient. What shows it is a comparison of gradients with one process,
# or of the ranks' weights after a step: both must be equal, and are not. A loss curve
# shows little, and nobody has the right one to lay beside it.

# %% [markdown]
# ## 6. Four micro-batches, once
#
# Each rank's six rows in three micro-batches. **Predict** how many sets of gradients are sent: without `no_sync()`,
# with it around forward and backward of the first two, and with it around their backward alone.

# %% tags=["nbval-check-output"]
without = 3  # predict: sets
around_both = 1  # predict: sets
around_backward = 3  # predict: sets


def accumulate(way):
    model = fresh()
    ddp = DistributedDataParallel(model)
    train_step(ddp, SGD(model.parameters(), lr=0.0), *my_rows(x, y))

    def forward(rows, targets):
        return F.cross_entropy(ddp(rows).flatten(0, 1), targets.flatten()) / 3

    with CollectiveCounter() as counter:
        mine = my_rows(x, y)
        for number, part in enumerate(zip(mine[0].split(2), mine[1].split(2), strict=True)):
            if way == "around both" and number < 2:
                with ddp.no_sync():
                    forward(*part).backward()
            elif way == "around backward" and number < 2:
                loss = forward(*part)
                with ddp.no_sync():
                    loss.backward()
            else:
                forward(*part).backward()
    return counter.bytes["all_reduce"] / (4 * model.parameter_count())


for way, prediction in (("without", without), ("around both", around_both), ("around backward", around_backward)):
    compare(prediction, run_world(accumulate, 2, way)[0], "sets", of=way)

# %% [markdown]
# ## 7. Who is slow?
#
# Rank 1 does 30 ms of other work in each forward: a slow disk, a hot GPU, a neighbor. **Predict** how many ms each of
# the two ranks' *steps* takes longer, and how many ms rank 0's backward does.

# %%
steps_longer = 30  # predict: ms
backward_longer = 30  # predict: ms


def straggling(extra_ms):
    model = fresh()
    parallel, optimizer = DistributedDataParallel(model), AdamW(model.parameters())
    timer = PhaseTimer(torch.device("cpu"))
    for number in range(14):
        if number == 4:
            timer = PhaseTimer(torch.device("cpu"))  # without the first steps
        timer.start()
        if dist.get_rank() == 1:
            time.sleep(extra_ms / 1000)
        train_step(parallel, optimizer, *my_rows(x, y), after=timer.record)
    return timer.by_rank()


alike, slow = (run_world(straggling, 2, extra)[0] for extra in (0, 30))


def step_of(phases, rank):
    return sum(times[rank] for times in phases.values())


for rank in range(2):
    compare(steps_longer, step_of(slow, rank) - step_of(alike, rank), "ms", of=f"rank {rank}'s step")
compare(backward_longer, slow["backward"][0] - alike["backward"][0], "ms", of="rank 0's backward")

# %%
figure = plots.Figure(figsize=(7, 2.6), layout="constrained")
axes = figure.subplots()
labels = ["alike: rank 0", "alike: rank 1", "slow: rank 0", "slow: rank 1"]
left = [0.0] * 4
for phase, color in zip(slow, (plots.TRAIN, plots.VALIDATION, plots.RATE), strict=True):
    widths = [*alike[phase], *slow[phase]]
    _ = axes.barh(labels, widths, left=left, color=color, label=phase)
    left = [begin + width for begin, width in zip(left, widths, strict=True)]
axes.invert_yaxis()
_ = axes.set(xlabel="ms per step", title="A slow rank has the longest forward; the others the longest backward")
_ = axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
axes.spines[["top", "right"]].set_visible(False)
figure if answered(steps_longer, backward_longer) else None

# %% [markdown]
# **Explain**: both ranks' steps are longer by the same. Where would you look for the straggler in the log of a run?

# %% [markdown] tags=["answer"]
# In the times by rank, phase by phase: the starter logs them as `ranks` events. The step times say only that somebody
# is slow. The rank with the longest forward, and the shortest backward, is the one that the others wait for.

# %% [markdown]
# ## 8. The epoch that repeats
#
# 100 samples, 4 ranks, 5 epochs. **Predict** how many different orders rank 0 reads if nobody calls `set_epoch`, and
# how many if somebody does.

# %% tags=["nbval-check-output"]
orders_forgotten = 1  # predict: orders
orders_set = 5  # predict: orders

sampler = DistributedSampler(range(100), num_replicas=4, rank=0)
compare(orders_forgotten, len({tuple(sampler) for _ in range(5)}), "orders", of="forgotten")
seen = set()
for epoch in range(5):
    sampler.set_epoch(epoch)
    seen.add(tuple(sampler))
compare(orders_set, len(seen), "orders", of="set")

# %% [markdown]
# ## What to keep
#
# - Equal weights, equal parts, averaged gradients: K processes are one, to rounding.
# - A step sends 2(K - 1)/K of the gradient bytes from each rank, in buckets that leave while backward computes.
# - Compare gradients, count calls, time phases by rank. The loss curve hides most of what can go wrong.
