# %% [markdown]
# # Lab 08: fully sharded data parallel
#
# **Two ranks train one model: why should each rank hold all of it?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a rough guess. Read the [lab page](../../labs/lab-08-fsdp.md) beside this notebook. Cells start two to four
# processes on your CPU; the whole notebook takes under a minute on two cores.

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
# each process, and returns a list of the results. All ranks make the same new model, Lab 02's with 808,064 parameters,
# and the same batch. Each rank takes its rows of the batch.


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
# After one step of the starter, memory contains weights, gradients and AdamW's two averages, in fp32. **Predict** how
# many MiB they take together on one rank: with DDP, sharded on 2 ranks, and sharded on 4.

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
    rank_0 = held[name][0]
    compare(predicted, (rank_0.weights + rank_0.gradients + rank_0.averages) / MIB, "MiB on rank 0", name)

# %% [markdown]
# **Explain**: weights, gradients and averages take 16 bytes per parameter. How many of the 16 does a rank hold with
# DDP, and how many when the model is sharded? The picture shows every rank.

# %% [markdown] tags=["answer"]
# 16 bytes for each of 808,064 parameters are 12.33 MiB. With DDP every rank keeps all of them, for any N. Sharded, a
# rank keeps 16/N bytes per parameter, and all ranks together hold the model once.

# %%
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
rows = [(f"{name}: rank {rank}", step) for name, steps in held.items() for rank, step in enumerate(steps)]
left = [0.0] * len(rows)
for role, color in (("weights", "#4c72b0"), ("gradients", "#dd8452"), ("averages", "#55a868")):
    sizes = [getattr(step, role) / MIB for _, step in rows]
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
# The model has five groups: four blocks, and the root with all other parameters. **Predict** how many all-gathers a
# step has with resharding and without, and how many reduce-scatters.

# %%
gathers = 9  # predict: all-gathers
gathers_kept = 5  # predict: all-gathers
scatters = 5  # predict: reduce-scatters

kept = run_world(one_step, 2, True, False)[0]
freed = held["sharded, 2 ranks"][0]


def count(step, kind):
    return sum(calls[kind] for calls in step.calls.values())


compare(gathers, count(freed, "all_gather"), "all-gathers", "with resharding")
compare(gathers_kept, count(kept, "all_gather"), "all-gathers", "without")
compare(scatters, count(freed, "reduce_scatter"), "reduce-scatters", "either way")

# %% [markdown]
# **Explain**: why is one group gathered only once, even with resharding?

# %% [markdown] tags=["answer"]
# Forward gathers every group once: 5. If the blocks were freed, backward gathers each of them again: 4. The root's
# group is not freed after forward, because backward starts with it. Each group's gradient is reduce-scattered once: 5.

# %% [markdown]
# ## 3. Which weights are whole at which moment?
#
# A gathered parameter is a plain tensor; a sharded parameter is a `DTensor`. So a hook inside each block can count the
# whole weights. **Predict** the most MiB of whole weights that a rank holds at any of these moments, with resharding
# and without. The model has 3.08 MiB of weights, each block 0.75.

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
# **Explain**: which weights are whole at the highest point of each line? Which memory do these hooks miss?

# %% [markdown] tags=["answer"]
# With resharding only the current block and the root are whole. Without it one block after another becomes whole in
# forward, and is freed in backward. The hooks miss one buffer: in backward the next block's all-gather already runs,
# into memory of its own, so that its weights are ready when backward needs them.

# %% [markdown]
# ## 4. The timeline of a step
#
# The profiler records when each rank computes and when it communicates. Find the all-gathers, one before each block's
# computation, and the reductions in backward. Gloo, the library for CPUs, runs a reduce-scatter as an all-reduce, and
# the picture names it so; NCCL sends half as much. The lengths of the bars depend on the load of your machine.


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
# Take one step in float64 twice: sharded on 3 ranks, and in one process with the whole batch. **Predict** in how many
# digits the new weights agree, for the weight that differs most.

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
# The gradients are the same sums, added in another order. AdamW's first update divides small numbers by their own
# size, which costs a digit or two. A mistake would show in the first few digits.

# %% [markdown]
# ## 6. An optimizer made before sharding
#
# Make AdamW, then shard the model, then train one step. **Predict** how many of the 808,064 weights change.

# %%
changed = 0  # predict: weights


def optimizer_first():
    model = fresh()
    before = full_values(model.parameters()).clone()
    early = AdamW(model.parameters(), lr=1e-3)
    model, _ = shard(model, 1e-3)
    train_step(model, early, *my_rows(*batch()))
    kept_bytes = sum(p.numel() * 4 for group in early.param_groups for p in group["params"])
    weights_changed = int((full_values(model.parameters()) != before).sum())
    return weights_changed, kept_bytes / MIB, local_bytes(model.parameters()) / MIB


moved, by_optimizer, by_model = run_world(optimizer_first, 2)[0]
compare(changed, moved, "weights")
if answered(changed):
    print(
        f"the model holds {by_model:.2f} MiB of weights on this rank, and the optimizer keeps {by_optimizer:.2f} alive"
    )

# %% [markdown]
# **Explain**: which tensors does the optimizer hold, and what are their gradients?

# %% [markdown] tags=["answer"]
# The optimizer holds the tensors from before sharding. Their gradients are None, so the optimizer skips all of them.
# They are not freed, because the optimizer holds them. In the log only the loss shows the mistake: it does not fall.

# %% [markdown]
# ## 7. The norm of a shard
#
# Each rank has its shard of the gradient. **Predict** the norm of rank 0's shard on 4 ranks, as a fraction of the norm
# of the whole gradient.

# %%
share = 0.5  # predict: of the whole norm


def norms():
    model, optimizer = shard(fresh(), 1e-3)
    train_step(model, optimizer, *my_rows(*batch()))
    own = torch.cat([p.grad.to_local().flatten() for p in model.parameters()]).norm().item()
    return own, full_values(p.grad for p in model.parameters()).norm().item()


norms_by_rank = run_world(norms, 4)
compare(share, norms_by_rank[0][0] / norms_by_rank[0][1], "of the whole norm")
if answered(share):
    print("squares of all four, together:", round(sum((own / whole) ** 2 for own, whole in norms_by_rank), 6))

# %% [markdown]
# **Explain**: what happens to a run in which each rank clips its shard by the shard's own norm?

# %% [markdown] tags=["answer"]
# The squares of the norms add up, the norms do not. Four shards of equal norm each have half of the whole norm. So each
# rank would clip too little, and each by a different factor.
