# %% [markdown]
# # Lab 08: fully sharded data parallel
#
# **Two ranks train one model. Why should each of them hold all of it?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the [lab page](../../labs/lab-08-fsdp.md) beside this notebook. Cells start real processes
# on your CPU, two or four at a time; all of it takes under a minute on two cores.

# %%
# %matplotlib inline
import math

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.profiler import record_function

from rankzero.curriculum import find_lab
from rankzero.learn.distributed.rank_sync import my_rows
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling import rank_timeline as timeline
from rankzero.learn.profiling.memory import MIB
from rankzero.learn.profiling.sharded_memory import full_values, local_bytes, measure
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("08").import_starter()  # the functions of train_fsdp.py, not copies of them
shard, train_step = starter.shard, starter.train_step
config = GPTConfig(vocab_size=96)


# %% [markdown]
# Every rank runs the functions below. `run_world(function, ranks)` starts that many processes, calls the function in
# each, and returns what each returned. All ranks make the same fresh model, Lab 02's with 808,064 parameters, and the
# same batch, of which each takes its rows.


# %%
def fresh(dtype=torch.float32):
    torch.manual_seed(0)
    return GPT(config).to(dtype)


def batch():
    x, y = torch.randint(config.vocab_size, (2, 12, 64), generator=torch.Generator().manual_seed(1))
    return x, y


def who_am_i():
    x, _ = my_rows(*batch())
    return f"rank {dist.get_rank()} of {dist.get_world_size()} has {len(x)} sequences"


run_world(who_am_i, 2)

# %% [markdown]
# ## 1. What does each rank hold?
#
# After one step of the starter there are weights, gradients and AdamW's two averages, in fp32. **Predict** how many
# MiB all of that is on one rank: with DDP, sharded on 2 ranks, and sharded on 4.

# %%
mib_ddp = 12.3  # predict: MiB
mib_on_two = 6.2  # predict: MiB
mib_on_four = 3.1  # predict: MiB


def one_step(sharded=True, reshard=True):
    if sharded:
        model, optimizer = shard(fresh(), 1e-3, reshard)
    else:
        model = DistributedDataParallel(fresh())
        optimizer = AdamW(model.parameters())
    return measure(train_step, model, optimizer, *my_rows(*batch()))


held = {
    "DDP, 2 ranks": run_world(one_step, 2, False),
    "sharded, 2 ranks": run_world(one_step, 2),
    "sharded, 4 ranks": run_world(one_step, 4),
}
for name, predicted in zip(held, (mib_ddp, mib_on_two, mib_on_four), strict=True):
    mine = held[name][0]
    compare(predicted, (mine.weights + mine.gradients + mine.averages) / MIB, "MiB on rank 0", name)

# %% [markdown]
# **Explain**: 16 bytes for each parameter: which of them does a rank hold with DDP, and which when sharded? The
# picture shows every rank.

# %% [markdown] tags=["answer"]
# 16 bytes for each of 808,064 parameters are 12.33 MiB. DDP keeps them on every rank, whatever N is. Sharded, a rank
# keeps 16/N: every rank has its share, and all of them together hold the model once.

# %%
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
rows = [(f"{name}: rank {rank}", one) for name, every in held.items() for rank, one in enumerate(every)]
left = [0.0] * len(rows)
for role, color in (("weights", "#4c72b0"), ("gradients", "#dd8452"), ("averages", "#55a868")):
    sizes = [getattr(one, role) / MIB for _, one in rows]
    _ = axes.barh([name for name, _ in rows], sizes, left=left, color=color, label=role)
    left = [a + b for a, b in zip(left, sizes, strict=True)]
axes.invert_yaxis()
_ = axes.set(xlabel="MiB after a step", title="Memory of each rank")
_ = axes.legend()
if not answered(mib_ddp, mib_on_two, mib_on_four):
    plt.close(figure)

# %% [markdown]
# ## 2. How many collectives?
#
# The model has four blocks, each a group of its own, and the root with the rest. **Predict** how many all-gathers a
# step takes with resharding, how many without, and how many reduce-scatters.

# %%
gathers = 9  # predict: all-gathers
gathers_kept = 5  # predict: all-gathers
scatters = 5  # predict: reduce-scatters

kept = run_world(one_step, 2, True, False)[0]
freed = held["sharded, 2 ranks"][0]


def count(one, kind):
    return sum(calls[kind] for calls in one.calls.values())


compare(gathers, count(freed, "all_gather"), "all-gathers", "with resharding")
compare(gathers_kept, count(kept, "all_gather"), "all-gathers", "without")
compare(scatters, count(freed, "reduce_scatter"), "reduce-scatters", "either way")

# %% [markdown]
# **Explain**: why is one group gathered only once, with resharding too?

# %% [markdown] tags=["answer"]
# Every group is gathered once in forward: 5. Backward needs each block again, if it was freed: 4. The root's group is
# not freed after forward, since backward starts with it. Each group's gradient is reduced and scattered once.

# %% [markdown]
# ## 3. When is what whole?
#
# A parameter that is gathered is a plain tensor, and a `DTensor` when it is not. So a hook can look, before and after
# each block, how much of the model is whole. **Predict** the most MiB of whole weights that a rank holds at any of
# these moments, with resharding and without. The model has 3.08 MiB of weights, each block 0.75.

# %%
most_freed = 0.83  # predict: MiB
most_kept = 3.08  # predict: MiB


def whole_weights(reshard):
    model, optimizer = shard(fresh(), 1e-3, reshard)
    seen = []

    def look(*_):
        seen.append(sum(0 if isinstance(p, DTensor) else p.numel() * 4 for p in model.parameters()) / MIB)

    for block in model.blocks:
        for part in (block.attention, block.mlp):  # inside: the hooks of a block's own come before it is gathered
            part.register_forward_hook(look)
            part.register_full_backward_pre_hook(look)
    train_step(model, optimizer, *my_rows(*batch()), after=look)
    return seen


weights = {"reshard": run_world(whole_weights, 2, True)[0], "no reshard": run_world(whole_weights, 2, False)[0]}
compare(most_freed, max(weights["reshard"][:9]), "MiB", "in forward, with resharding")
compare(most_kept, max(weights["no reshard"]), "MiB", "without")

# %%
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
for name, seen in weights.items():
    _ = axes.step(range(1, len(seen) + 1), seen, where="mid", marker="o", markersize=3, label=name)
_ = axes.axvline(9, color="grey", linewidth=0.8, linestyle=":")
_ = axes.text(9.2, 1.8, "forward ends", color="grey")
_ = axes.set(xlabel="moments of a step: each attention and MLP, forward and backward", ylabel="MiB of whole weights")
_ = axes.set_xticks(range(1, 20, 2))
_ = axes.set_ylim(0, None)
_ = axes.legend()
if not answered(most_freed, most_kept):
    plt.close(figure)

# %% [markdown]
# **Explain**: what is whole at the highest point of each line? What can these hooks not see?

# %% [markdown] tags=["answer"]
# With resharding the line stays low: the block at work, and the root. Without it the model grows whole, block by
# block, waits, and is given back. The hooks do not see that in backward the next block's gather is already under way,
# into a buffer of its own, so that its weights are there when they are needed.

# %% [markdown]
# ## 4. What a step looks like
#
# The profiler records when each rank computes and when it communicates. Look for the gathers, one before each block's
# work, and for the reductions in backward. Gloo, the CPU's library, carries out a reduce-scatter as an all-reduce, and
# that is what it calls it here; NCCL sends half as much. How long the bars are depends on how busy your machine is.


# %%
def recorded_step():
    model, optimizer = shard(fresh(), 1e-3)
    rows = my_rows(*batch())
    for _ in range(2):  # the first steps make buffers and state
        train_step(model, optimizer, *rows)
    with timeline.record_spans() as spans:
        with record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(rows[0]).flatten(0, 1), rows[1].flatten())
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
    return spans


spans = run_world(recorded_step, 2)
timeline.plot_rank_timeline(spans, "One sharded step on two ranks")

# %% [markdown]
# ## 5. Is it the same training?
#
# One step in float64: sharded on 3 ranks, and in one process with the whole batch. **Predict** in how many digits the
# new weights agree where they differ most.

# %%
digits = 14  # predict: digits


def new_weights(sharded):
    x, y = batch()
    model = fresh(torch.float64)
    if sharded:
        model, optimizer = shard(model, 1e-3)
        train_step(model, optimizer, *my_rows(x, y))
    else:
        optimizer = AdamW(model.parameters(), lr=1e-3)
        torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
    return full_values(model.parameters())


apart = (run_world(new_weights, 3, True)[0] - run_world(new_weights, 1, False)[0]).abs().max().item()
compare(digits, -math.log10(apart), "digits")

# %% [markdown]
# **Explain**: why not all 16 digits of float64?

# %% [markdown] tags=["answer"]
# float64 keeps 16 digits. The gradients are the same sums in another order, and AdamW's first update divides small
# numbers by their own size, which costs a digit or two. A mistake would show in the first few.

# %% [markdown]
# ## 6. An optimizer that is older than the shards
#
# Make AdamW first, shard then, and train one step. **Predict** how many of the 808,064 weights change.

# %%
changed = 0  # predict: weights


def optimizer_first():
    model = fresh()
    before = full_values(model.parameters()).clone()
    early = AdamW(model.parameters(), lr=1e-3)
    model, _ = shard(model, 1e-3)
    train_step(model, early, *my_rows(*batch()))
    held_by_it = sum(p.numel() * 4 for group in early.param_groups for p in group["params"])
    weights_changed = int((full_values(model.parameters()) != before).sum())
    return weights_changed, held_by_it / MIB, local_bytes(model.parameters()) / MIB


moved, by_optimizer, by_model = run_world(optimizer_first, 2)[0]
compare(changed, moved, "weights")
if answered(changed):
    print(
        f"the model holds {by_model:.2f} MiB of weights on this rank, and the optimizer keeps {by_optimizer:.2f} alive"
    )

# %% [markdown]
# **Explain**: which tensors does the optimizer hold, and what are their gradients?

# %% [markdown] tags=["answer"]
# The optimizer holds the tensors from before. Their gradients are None, so it passes over all of them, and because it
# holds them they are not freed. No line of the log says so, except the loss, which stands still.

# %% [markdown]
# ## 7. The norm of a part
#
# Each rank has its part of the gradient. **Predict** the norm of rank 0's part on 4 ranks, as a share of the whole
# gradient's norm.

# %%
share = 0.5  # predict: of the whole norm


def norms():
    model, optimizer = shard(fresh(), 1e-3)
    train_step(model, optimizer, *my_rows(*batch()))
    own = torch.cat([p.grad.to_local().flatten() for p in model.parameters()]).norm().item()
    return own, full_values(p.grad for p in model.parameters()).norm().item()


every = run_world(norms, 4)
compare(share, every[0][0] / every[0][1], "of the whole norm")
if answered(share):
    print("squares of all four, together:", round(sum((own / whole) ** 2 for own, whole in every), 6))

# %% [markdown]
# **Explain**: what would happen to a run that clips each part by its own norm?

# %% [markdown] tags=["answer"]
# Squares add up, lengths do not. Four parts of equal length are each half as long as the whole. Clipping by the own
# norm would clip too little, and by another factor on every rank.
