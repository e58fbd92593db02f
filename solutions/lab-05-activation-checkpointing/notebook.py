# %% [markdown]
# # Lab 05: activation checkpointing
#
# **What may you throw away in forward, and what must you keep to compute it again exactly?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the [lab page](../../labs/lab-05-activation-checkpointing.md) beside this notebook. All of
# it takes under a minute on two CPU cores; on a GPU it runs unchanged.

# %%
# %matplotlib inline
import importlib.util

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rankzero.curriculum import find_lab
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.profiling.memory import MIB, PhaseMemory
from rankzero.learn.runs import plots
from rankzero.learn.runs.predictions import answered, compare

lab = find_lab("05")
starter = lab.import_starter()  # the functions of train_checkpointing.py, not copies of them
device = choose_device()
corpus = load_corpus()
x, y = (one.to(device) for one in random_batch(corpus.train, step=0, seed=0, batch_size=12, block_size=64))
print("inputs", tuple(x.shape), "policies", starter.POLICIES)


# %% [markdown]
# Each experiment starts from the same weights, the same batch and the same dropout masks.


# %%
def fresh(policy, layers=9, dropout=0.1):
    torch.manual_seed(0)
    config = GPTConfig(corpus.vocab_size, n_layer=layers, hidden_dim=64, dropout=dropout)
    model = starter.RecomputingGPT(config).to(device)
    model.policy = policy
    return model


def loss_of(model):
    torch.manual_seed(1)
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def step(model):
    """Bytes that autograd keeps after forward, and at the fullest moment of the step."""
    with PhaseMemory(model, torch.optim.SGD(model.parameters()), device) as memory:
        loss = loss_of(model)
        memory.record("forward")
        loss.backward()
    return memory.rows[0].activations, memory.peak_activations


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# %% [markdown]
# ## 1. What is left of a block
#
# 12 sequences of 64 tokens, 64 numbers wide, fp32. **Predict** how many bytes one recomputed block keeps between
# forward and backward.

# %% tags=["nbval-check-output"]
bytes_a_block = 12 * 64 * 64 * 4  # predict: bytes

kept_by_ten, _ = step(fresh("blocks", layers=10))
kept_by_nine, _ = step(fresh("blocks", layers=9))
compare(bytes_a_block, kept_by_ten - kept_by_nine, "bytes")

# %% [markdown]
# A block that is not recomputed keeps more: 16 tensors of that size without dropout. **Predict** how many with dropout
# 0.1. On the CPU a mask keeps 4 bytes for each number, and attention keeps three squares [B, H, T, T], here with H = 4
# heads and T = 64.

# %%
tensors_a_block = 30  # predict: tensors of [B, T, C]

plain_ten, _ = step(fresh("none", layers=10))
plain_nine, _ = step(fresh("none", layers=9))
compare(tensors_a_block, (plain_ten - plain_nine) / (kept_by_ten - kept_by_nine), "tensors of [B, T, C]")

# %% [markdown]
# **Explain**: three squares of 12 · 4 · 64 · 64 numbers are how many tensors of 12 · 64 · 64?

# %% [markdown] tags=["answer"]
# A square is H · T / C = 4 tensors, so three make 12. Two masks, behind attention and behind the MLP, add 2. The block
# keeps its 16 as before, the inputs of norms and matrix products among them: 30 in all, and the norms' statistics.

# %% [markdown]
# ## 2. Equal, or nearly equal?
#
# One step under each policy, from the same weights, batch and masks. **Predict** how many of the 453,824 gradients
# differ between recomputing each block and recomputing nothing, in any bit.

# %% tags=["nbval-check-output"]
differ = 0  # predict: gradients that differ

found = {}
for policy in starter.POLICIES:
    model = fresh(policy)
    loss_of(model).backward()
    found[policy] = gradients(model)
for policy in starter.POLICIES[1:]:
    compare(differ, int((found[policy] != found["none"]).sum()), "gradients that differ", of=policy)

# %% [markdown]
# **Explain**: floating-point sums depend on their order. Why is no tolerance needed here?

# %% [markdown] tags=["answer"]
# The second run calls the same kernels on the same numbers in the same order. Nothing is added up in another way, so
# there is nothing to tolerate. (Some CUDA kernels add in an order that varies from run to run; there two plain steps
# differ as well.)

# %% [markdown]
# ## 3. How often a block runs
#
# **Predict** how often the fourth block's attention and its MLP run in one step that recomputes attention alone.

# %% tags=["nbval-check-output"]
attention_runs = 2  # predict: runs
mlp_runs = 1  # predict: runs


def runs(policy, part):
    model, count = fresh(policy), []
    model.get_submodule(part).register_forward_hook(lambda *_: count.append(1))
    loss_of(model).backward()
    return len(count)


compare(attention_runs, runs("selective", "blocks.3.attention"), "runs", of="attention")
compare(mlp_runs, runs("selective", "blocks.3.mlp"), "runs", of="MLP")

# %% [markdown]
# ## 4. The fullest moment
#
# With each block recomputed the model keeps 2.55 MiB after forward, nine inputs among it. Then backward begins, and
# the last block runs again. **Predict** the most that is kept at any moment of the step, in MiB. An input is 0.19 MiB;
# a block's inside you measured in experiment 1.

# %%
peak = 8 * 0.1875 + 30 * 0.1875  # predict: MiB

_, measured_peak = step(fresh("blocks"))
compare(peak, measured_peak / MIB, "MiB")

# %% [markdown]
# ## 5. How many segments
#
# Now 16 blocks, and segments of 1, 2, 4, 8 and 16 of them. The square root says 4. **Predict** which length has the
# lowest peak.

# %%
best_length = 1  # predict: blocks a segment

compare_policies = importlib.util.spec_from_file_location("compare_policies", lab.folder / "compare_policies.py")
charts = importlib.util.module_from_spec(compare_policies)
compare_policies.loader.exec_module(charts)

torch.manual_seed(0)
deep = charts.SegmentedGPT(GPTConfig(corpus.vocab_size, n_layer=16, hidden_dim=64, dropout=0.1)).to(device)
lengths = [1, 2, 4, 8, 16]
sizes = {}
for length in lengths:
    deep.policy = str(length)
    sizes[length] = step(deep)
compare(best_length, min(lengths, key=lambda length: sizes[length][1]), "blocks a segment")

# %%
figure = plots.Figure(figsize=(6, 3.2), layout="constrained")
axes = figure.subplots()
places = range(len(lengths))
axes.bar([at - 0.2 for at in places], [sizes[n][0] / MIB for n in lengths], 0.4, label="after forward", color="#9dbbe0")
axes.bar([at + 0.2 for at in places], [sizes[n][1] / MIB for n in lengths], 0.4, label="at most", color=plots.TRAIN)
axes.set_xticks(places, [str(n) for n in lengths])
axes.set(xlabel="blocks a segment, of 16", ylabel="activations (MiB)")
axes.set_title("Longer segments keep less")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure if answered(best_length) else None

# %% [markdown]
# **Explain**: a segment's input takes b bytes, a block's inside a bytes. Write the peak of 16 / n segments of n
# blocks. For which a would the root be right?

# %% [markdown] tags=["answer"]
# The last segment peaks highest: (16 / n - 1) · b + n · a. The first term falls with n and the second rises, and they
# meet where n = √(16 · b / a). With a = b that is 4; with a = 30 b it is below 1, and n cannot be less than 1.

# %% [markdown]
# ## 6. FLOPs
#
# Forward is one unit and backward two. The blocks are nearly all of this model. **Predict** by what factor the FLOPs of
# a step grow when each block is recomputed.

# %%
factor = 4 / 3  # predict: times


def flops(policy):
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # fused attention goes uncounted
        loss_of(fresh(policy)).backward()
    return counter.get_total_flops()


plain_flops = flops("none")
compare(factor, flops("blocks") / plain_flops, "times the FLOPs", of="each block recomputed")
if answered(factor):
    print(f"attention alone: {flops('selective') / plain_flops:.3f} times")

# %% [markdown]
# ## 7. Time against bytes
#
# **Predict** how much longer a step takes on this machine with each block recomputed.

# %%
slower = 1.5  # predict: times

torch.manual_seed(0)
model = charts.SegmentedGPT(GPTConfig(corpus.vocab_size, n_layer=9, hidden_dim=64, dropout=0.1)).to(device)
points = charts.measure(model, x, y, [*starter.POLICIES, "9"], repeats=4)
compare(slower, charts.ratio(points[1], points[0]), "times as long")

# %%
charts.draw(points, f"9 blocks, 64 wide, dropout 0.1, {device.type}") if answered(slower) else None

# %% [markdown]
# **Explain**: which point would you choose if 30 MiB were free, and which if 10? Why is the step slower by more, or
# less, than its FLOPs say?

# %% [markdown] tags=["answer"]
# With 30 MiB: attention alone, which is the cheapest of those that fit. With 10: each block. FLOPs count matrix
# products only. Norms, GELU, masks and softmax run twice too; on a CPU, drawing dropout's masks takes as long as a
# product, so the time grows by more than a third. What is equal for all, such as the loss, pulls the other way.

# %% [markdown]
# ## 8. Another mask
#
# Leave out what restores the generator. The loss stays right, and the gradient is off by some share of its length.
# **Predict** the share for dropout 0.1.

# %%
off_by = 0.3  # predict: of the gradient's length


class Forgetful(starter.Checkpoint):
    @staticmethod
    def backward(ctx, *gradients):
        inside = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.run(inside)
        torch.autograd.backward(output, gradients)
        return None, None, inside.grad


def error(dropout):
    right, wrong = fresh("none", dropout=dropout), fresh("blocks", dropout=dropout)
    losses = [loss_of(right)]
    losses[0].backward()
    whole, starter.Checkpoint = starter.Checkpoint, Forgetful
    try:
        losses.append(loss_of(wrong))
        losses[1].backward()
    finally:
        starter.Checkpoint = whole
    assert losses[0] == losses[1]
    return float((gradients(wrong) - gradients(right)).norm() / gradients(right).norm())


rates = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5]
errors = [error(rate) for rate in rates]
compare(off_by, errors[2], "of the gradient's length")

# %%
figure = plots.Figure(figsize=(5.5, 3), layout="constrained")
axes = figure.subplots()
axes.plot(rates, errors, "o-", color=plots.VALIDATION)
axes.set(xlabel="dropout", ylabel="gradient off by (its own length)", ylim=(0, None))
axes.set_title("The loss is equal throughout")
axes.spines[["top", "right"]].set_visible(False)
figure if answered(off_by) else None

# %% [markdown]
# **Explain**: why does training go on all the same, and what would you have looked at to find the bug?

# %% [markdown] tags=["answer"]
# The gradient of another mask is still a gradient of the same weights on the same batch, with noise, so most updates
# point downhill. The curve ends a little higher, which nobody can tell without the right one beside it. Comparing the
# gradients of one step with and without recomputation finds it at once, because the right difference is 0.

# %% [markdown]
# ## 9. The last block
#
# Recompute one block of nine: the last one, and then the first. **Predict** by how many MiB each lowers the peak.

# %%
last_saves = 0.0  # predict: MiB
first_saves = 29 * 0.1875  # predict: MiB


class OneRecomputed(starter.RecomputingGPT):
    place = None

    def run_blocks(self, stream):
        for at, block in enumerate(self.blocks):
            stream = starter.checkpoint(block, stream) if at == self.place else block(stream)
        return stream


def peak_with(place):
    torch.manual_seed(0)
    model = OneRecomputed(GPTConfig(corpus.vocab_size, n_layer=9, hidden_dim=64, dropout=0.1)).to(device)
    model.place = place
    return step(model)[1] / MIB


compare(last_saves, peak_with(None) - peak_with(8), "MiB", of="the last block recomputed")
compare(first_saves, peak_with(None) - peak_with(0), "MiB", of="the first block recomputed")

# %% [markdown]
# **Explain**: what does backward free before it reaches the last block, and what does that do to the last block's
# number?

# %% [markdown] tags=["answer"]
# Memory of the loss and the output layer. The plain step is fullest when forward ends, with those still there; when the
# last block runs again they are gone. Without a loss behind it the last block saves exactly nothing.

# %% [markdown]
# ## What to keep
#
# - A second run with the same input, weights, random numbers and precision gives the same gradients, in every bit.
# - What is kept after forward is not the peak: one segment's inside comes back at once.
# - Segments of a transformer should be short; recomputing the last one saves nothing.
# - Time is not FLOPs: measure it, beside the plain step.
