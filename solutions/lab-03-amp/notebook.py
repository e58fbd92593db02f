# %% [markdown]
# # Lab 03: automatic mixed precision
#
# **What does a training step gain and lose when its matrix products are 16-bit, and what has to stay fp32?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Read the [lab
# page](../../labs/lab-03-amp.md) beside this notebook. All of it takes about half a minute on two CPU cores; on a GPU
# it runs unchanged.

# %%
# %matplotlib inline
import torch

from rankzero.curriculum import find_lab
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device, seed_everything
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import MIB, PhaseMemory
from rankzero.learn.runs import plots
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("03").import_starter()  # the functions of train_amp.py, not copies of them
device = choose_device()
corpus = load_corpus()
large, small = GPTConfig(corpus.vocab_size), GPTConfig(corpus.vocab_size, block_size=32, n_layer=2, hidden_dim=64)
print(large.summary())
print(small.summary(), "(where fp16 takes many steps: a CPU is slow in it)")


# %%
def fresh(config):
    seed_everything(0)
    model = GPT(config).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def batch(config, step=0):
    x, y = random_batch(corpus.train, step=step, seed=0, batch_size=12, block_size=config.block_size)
    return x.to(device), y.to(device)


# %% [markdown]
# ## 1. The next number
#
# A weight of 1.0 in bf16. **Predict** the distance to the next larger number that bf16 has.

# %% tags=["nbval-check-output"]
next_after_one = 2**-7  # predict: units

one = torch.tensor(1.0, dtype=torch.bfloat16)
compare(next_after_one, (torch.nextafter(one, one + 1) - one).item(), "units", of="distance")

# %% [markdown]
# The weight is trained: 100 updates, each subtracts 0.001. **Predict** its value afterwards, in bf16.

# %% tags=["nbval-check-output"]
weight_afterwards = 1.0  # predict: units

weight = one.clone()
for _ in range(100):
    weight -= 0.001
compare(weight_afterwards, weight.item(), "units", of="weight")

# %% [markdown]
# **Explain**: 100 · 0.001 is 0.1. Where did it go? What would the same loop give with 0.01, and why is that worse?

# %% [markdown] tags=["answer"]
# Just below 1 the numbers of bf16 are 2⁻⁸ = 0.0039 apart. 1 - 0.001 is nearer to 1 than to 0.996, so it is rounded
# back to 1, a hundred times. With 0.01 the weight does move, but each step is rounded to a multiple of the spacing
# there, and after 100 steps it is at -0.06 instead of 0. That is worse because nothing looks wrong. A weight is a
# running total, and running totals want fp32: that is what master weights are for.

# %% [markdown]
# ## 2. How small are gradients?
#
# The first batch of the starter, in fp32. fp16's smallest normal number is 2⁻¹⁴; below it, digits are lost.
# **Predict** which share of the gradients (those that are not 0) lies below it.

# %%
below_normal = 17  # predict: percent

model, _ = fresh(large)
exact = starter.gradient(model, *batch(large), None, 1.0)
there = exact[exact != 0].abs()
compare(below_normal, 100 * (there < 2.0**-14).float().mean().item(), "%")

# %%
figure = plots.Figure(figsize=(7, 3), layout="constrained")
axes = figure.subplots()
axes.hist(there.log2().cpu().numpy(), bins=range(-32, 18), color=plots.TRAIN)
axes.axvspan(-24, -14, color="0.75", alpha=0.5)
axes.axvline(-25, color="black", linewidth=1)
axes.axvline(16, color="black", linewidth=1)
top = axes.get_ylim()[1]
_ = axes.text(-19, 0.93 * top, "subnormal", ha="center", fontsize=8)
_ = axes.text(-25.4, 0.93 * top, "becomes 0", ha="right", fontsize=8)
_ = axes.text(15.6, 0.93 * top, "inf", ha="right", fontsize=8)
_ = axes.set(
    xlabel="size of a gradient, as a power of 2", ylabel="gradients", title="Gradients of a batch in fp16's range"
)
figure if answered(below_normal) else None

# %% [markdown]
# **Explain**: where is there room, and what would a loss scale of 2¹⁶ do to this picture?

# %% [markdown] tags=["answer"]
# The right half is empty: no gradient comes near the top of the range, at 2¹⁶. Multiplying the loss by 2¹⁶ moves the
# whole histogram 16 to the right. Its left foot leaves the gray zone, and its right end, at 2⁻³ or so, arrives at
# 2¹³, still below inf. Nothing else changes: it is a shift, not a stretch.

# %% [markdown]
# ## 3. What the scale changes
#
# The same gradient in each format, computed from the plain loss and from the loss times 65,536, divided out again.
# **Predict** in how many of the 808,064 gradients at least one bit changes: in fp32, and under fp16 autocast.

# %%
changed_in_fp32 = 0  # predict: gradients
changed_in_fp16 = 606_000  # predict: gradients

plain, scaled = {}, {}
for name, low in starter.FORMATS.items():
    plain[name] = starter.gradient(model, *batch(large), low, 1.0)
    scaled[name] = starter.gradient(model, *batch(large), low, 65536.0)
changed = {name: int((plain[name] != scaled[name]).sum()) for name in plain}
compare(changed_in_fp32, changed["fp32"], "gradients", of="fp32")
compare(changed_in_fp16, changed["fp16"], "gradients", of="fp16")
if answered(changed_in_fp32, changed_in_fp16):
    print("bf16:", changed["bf16"])

# %% [markdown]
# **Explain** the number for fp32, and that for bf16. And how can the number for fp16 be so far from the share of
# gradients below 2⁻¹⁴?

# %% [markdown] tags=["answer"]
# A power of two changes the exponent of a number and no bit of its fraction. Backward is linear in the gradient that
# it starts from, so every product and every sum has the same fraction as before and is rounded at the same place.
# That ends only where an exponent runs out, which in fp32 and bf16 takes numbers below 10⁻³⁸.
#
# In fp16 a weight's gradient is the sum of products with *activation* gradients, and those are smaller: each belongs
# to one token, the weight's to all. If some of its terms had lost digits among the subnormals, the sum is another
# one.

# %% [markdown]
# ## 4. How far from fp32?
#
# bf16 has 7 bits of fraction, fp16 has 10. **Predict** how many times further from fp32's gradient bf16's is than the
# scaled one of fp16.

# %%
bf16_over_fp16 = 8  # predict: times


def off_by(gradient):
    return ((gradient - exact).norm() / exact.norm()).item()


compare(bf16_over_fp16, off_by(scaled["bf16"]) / off_by(scaled["fp16"]), "times")
if answered(bf16_over_fp16):
    off = {name: f"{off_by(gradient):.5f}" for name, gradient in scaled.items()}
    print(f"bf16 {off['bf16']}, fp16 {off['fp16']}, without a scale {off_by(plain['fp16']):.5f}")

# %% [markdown]
# ## 5. The best scale
#
# The smaller model, fp16, scales from 2⁰ up. **Predict** the largest power of two that works: the exponent of the
# last scale at which every gradient is finite.

# %%
largest_exponent = 18  # predict: doublings

model, _ = fresh(small)
exact = starter.gradient(model, *batch(small), None, 1.0)
errors = {}
for exponent in range(-6, 22):
    gradient = starter.gradient(model, *batch(small), torch.float16, 2.0**exponent)
    if gradient.isfinite().all():
        errors[exponent] = off_by(gradient)
compare(largest_exponent, max(errors), "doublings", of="from a scale of 1")

# %%
figure = plots.Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
axes.plot(list(errors), list(errors.values()), marker="o", color=plots.TRAIN)
axes.axvspan(max(errors) + 0.5, 22, color="0.75", alpha=0.5)
_ = axes.text(max(errors) + 0.8, max(errors.values()) / 2, "overflow", fontsize=8)
_ = axes.set(
    xlabel="loss scale, as a power of 2", ylabel="off from fp32 by", title="What a scale buys in fp16", yscale="log"
)
figure if answered(largest_exponent) else None

# %% [markdown]
# **Explain**: the curve has a flat part. Why is the search for the *largest* scale that works still a good one?

# %% [markdown] tags=["answer"]
# On the flat part no gradient that matters is subnormal any more; what is left is fp16's own rounding, which no scale
# changes. With 384 tokens per batch, a scale of 1 is nearly good enough. But the loss is a mean: with 64 times as many
# tokens each token's gradient is 64 times smaller, which is what 2⁻⁶ shows here, and the error is 40 times as large.
#
# The flat part moves with batch, depth and training, and nobody watches it. Its right end announces itself, by an inf
# that is easy to detect; its left end is silent. So it is safe to live near the right one.

# %% [markdown]
# ## 6. A scale that finds itself
#
# 90 steps in fp16. The scale starts at 65,536 and doubles after 5 good steps in a row. **Predict** how many of the 90
# are skipped.

# %%
skipped = 10  # predict: steps

model, optimizer = fresh(small)
scaler = starter.LossScaler(True, 65536.0, growth_interval=5)
scales, losses = [], []
for step in range(90):
    scales.append(scaler.scale)
    losses.append(starter.train_step(model, optimizer, *batch(small, step), torch.float16, scaler))
compare(skipped, scaler.skipped, "steps")

# %%
figure = plots.Figure(figsize=(7, 3), layout="constrained")
axes = figure.subplots()
axes.step(range(90), torch.tensor(scales).log2(), where="mid", color=plots.TRAIN, label="scale")
halved = [step for step in range(89) if scales[step + 1] < scales[step]]
_ = axes.plot(halved, torch.tensor(scales).log2()[halved], "x", color=plots.VALIDATION, label="skipped")
_ = axes.set(xlabel="step", ylabel="loss scale, as a power of 2", title="Up until it overflows, down, up again")
axes.yaxis.get_major_locator().set_params(integer=True)
axes.legend(frameon=False)
figure if answered(skipped) else None

# %% [markdown]
# **Explain**: why does the level rise as the loss falls? What share of steps would be lost with the default interval
# of 2,000?

# %% [markdown] tags=["answer"]
# The gradients shrink at first, so a larger scale fits. A growth that fails costs one step and comes at most once per
# interval: with 2,000, one step in 2,000.

# %% [markdown]
# ## 7. Memory
#
# The first step of the larger model keeps 25.14 MiB of activations in fp32. **Predict** the number under bf16
# autocast.

# %%
activations = 15.98  # predict: MiB

model, optimizer = fresh(large)
off = starter.LossScaler(False, 1.0, 2000)
with PhaseMemory(model, optimizer, device) as memory:
    starter.train_step(model, optimizer, *batch(large), torch.bfloat16, off, after=memory.record)
compare(activations, memory.rows[0].activations / MIB, "MiB")

# %% [markdown]
# **Explain**: why not half? And how many bytes per parameter do weights, gradients and AdamW's averages take now?

# %% [markdown] tags=["answer"]
# Norms and the residual stream stay fp32, and so do the loss's log-probabilities. On top come bf16 copies of all
# matrices, 2 bytes per parameter, kept because backward multiplies by them. Weights, gradients and averages take 4 + 4
# + 8 = 16 bytes, as before: autocast casts inputs, it converts nothing.

# %% [markdown]
# ## 8. Which format, where?
#
# **Predict** how many bits the numbers have that come out of the first norm, the first linear layer, the first block
# and the head: 16 or 32.

# %% tags=["nbval-check-output"]
first_norm = 32  # predict: bits
first_linear = 16  # predict: bits
first_block = 32  # predict: bits
head = 16  # predict: bits

guesses = {
    "blocks.0.norm1": first_norm,
    "blocks.0.attention.qkv": first_linear,
    "blocks.0": first_block,
    "head": head,
}
formats = {}
hooks = [
    model.get_submodule(name).register_forward_hook(lambda _, __, out, name=name: formats.update({name: out.dtype}))
    for name in guesses
]
with torch.autocast(device.type, dtype=torch.bfloat16):
    logits = model(batch(large)[0])
for hook in hooks:
    hook.remove()
for name, bits in guesses.items():
    compare(bits, 8 * formats[name].itemsize, "bits", of=name)

# %% [markdown]
# **Explain**: the block ends with a linear layer, as the MLP does. Where does the format of the block's own output come
# from?

# %% [markdown] tags=["answer"]
# The linear layer's output is added to the residual stream. That is fp32, because it began with an embedding, and the
# wider of two formats wins. So the running total over layers is kept in fp32, too.

# %% [markdown]
# ## What to keep
#
# - Range and precision are two things. bf16 has the range, fp16 the precision, fp32 both.
# - Running totals (weights, averages, sums) want fp32. Inputs of matrix products do not need it.
# - A loss scale is a power of two and therefore exact. It repairs fp16 and does nothing elsewhere.
# - Unscale, look, clip, update, then change the scale. If a gradient is not finite, nothing of the step may remain.
