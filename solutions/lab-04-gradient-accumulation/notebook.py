# %% [markdown]
# # Lab 04: gradient accumulation
#
# **Your batch does not fit. How do you train on it all the same, and how do you know that it is the same run?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the
# [lab page](../../labs/lab-04-gradient-accumulation.md) beside this notebook. All of it takes under a minute on two CPU
# cores; on a GPU it runs unchanged.

# %%
# %matplotlib inline
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.optim import SGD, AdamW

from rankzero.curriculum import find_lab
from rankzero.errors import UserError
from rankzero.exercises.probes.loader import load
from rankzero.exercises.study.workspace import work_file
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device, seed_everything
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import MIB, PhaseMemory
from rankzero.learn.runs import plots
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("04").import_starter()  # the functions of train_accumulation.py, not copies of them
device = choose_device()
corpus = load_corpus()
config = GPTConfig(corpus.vocab_size)


# %% [markdown]
# Each experiment starts from the same fresh model: that of Lab 02, 808,064 parameters, on batches of 12 sequences of 64
# characters.


# %%
def fresh():
    seed_everything(0)
    return GPT(config).to(device)


def batch(step, batch_size=12):
    x, y = random_batch(corpus.train, step=step, seed=0, batch_size=batch_size, block_size=config.block_size)
    return x.to(device), y.to(device)


def flat(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


x, y = batch(step=0)
print("one batch", tuple(x.shape), "as micro-batches", [tuple(part.shape) for part in x.split(5)])

# %% [markdown]
# ## 1. How equal is equal?
#
# `first_gradient` takes one step of the starter on a copy of the model and returns the gradient that the optimizer
# was handed. The same batch, in one piece and as 4 + 4 + 4. **Predict** in how many decimal digits the two agree,
# where they differ most: once in float64, once in float32.

# %%
digits_float64 = 15  # predict: digits
digits_float32 = 6.5  # predict: digits


def digits(dtype, micro_batch=4):
    model = fresh()
    whole, _ = starter.first_gradient(model, x, y, 12, dtype)
    parts, _ = starter.first_gradient(model, x, y, micro_batch, dtype)
    return -math.log10(((parts - whole).abs().max() / whole.abs().max()).item())


compare(digits_float64, digits(torch.float64), "digits", of="float64")
compare(digits_float32, digits(torch.float32), "digits", of="float32")

# %% [markdown]
# **Explain**: neither is infinite, although the two ways compute the same sum. Why? And why does the starter look at
# float64, when it trains in float32?

# %% [markdown] tags=["answer"]
# Addition of floating-point numbers rounds, so its result depends on the order: a + (b + c) is not always (a + b) + c.
# In one piece a matrix product adds up all 768 tokens; in parts, three sums of 256 are added. float64 keeps 16 digits
# and float32 keeps 7, and each comparison loses about one of them.
#
# In float32 a small mistake, such as a divisor that is off by one token in a million, would hide below the rounding. In
# float64 nothing that matters fits between the 12th digit and the last.

# %% [markdown]
# ## 2. What shrinks
#
# Lab 02's activations were 25.14 MiB for 12 sequences, beside 3.08 MiB of weights. **Predict** the activations for
# micro-batches of 4, and the most that weights, gradients and activations take together in the first step, before the
# optimizer's state exists.

# %%
activations = 25.14 / 3  # predict: MiB
together = 25.14 / 3 + 2 * 3.08  # predict: MiB


def held(micro_batch):
    model = fresh()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    with PhaseMemory(model, optimizer, device) as memory:
        starter.train_step(model, optimizer, x, y, micro_batch, after=memory.record)
    return memory.rows


rows = held(4)
compare(activations, max(row.activations for row in rows) / MIB, "MiB", of="activations")
compare(together, max(row.total - row.optimizer for row in rows) / MIB, "MiB", of="weights, gradients, activations")

# %%
figure = plots.Figure(figsize=(7, 3.4), layout="constrained")
axes = figure.subplots()
sizes = [12, 6, 4, 3, 2, 1]
forwards = [[row for row in held(size) if row.phase == "forward"] for size in sizes]
peaks = [max(rows, key=lambda row: row.total) for rows in forwards]
bottom = [0.0] * len(sizes)
colors = {"weights": plots.TRAIN, "gradients": plots.VALIDATION, "activations": "#8c6bb1"}
for role, color in colors.items():
    heights = [getattr(row, role) / MIB for row in peaks]
    _ = axes.bar([str(size) for size in sizes], heights, bottom=bottom, color=color, label=role)
    bottom = [start + height for start, height in zip(bottom, heights, strict=True)]
_ = axes.set(
    xlabel="sequences per micro-batch (12 per batch)", ylabel="MiB held", title="The fullest forward of the first step"
)
_ = axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure if answered(activations, together) else None

# %% [markdown]
# **Explain**: the bar for 12 has no gradients in it, the others do. Why? In which bar does a smaller micro-batch stop
# being worth its trouble?

# %% [markdown] tags=["answer"]
# With the whole batch there is one forward, and gradients appear only in the backward after it. With parts, the second
# forward begins when the first micro-batch's gradients are already there, and they stay until the update. So cutting a
# batch in two saves half of the activations and pays one set of gradients.
#
# From 2 sequences on, weights and gradients are larger than what is left to save. (From the second step on, the
# optimizer's state is there as well, twice the weights.) The rest of the way costs speed and saves little.

# %% [markdown]
# ## 3. The factor that AdamW hides
#
# Nobody divides the loss: each gradient is three times too long. Train 40 updates right and 40 wrong, with AdamW and
# with SGD. **Predict** by how much the last ten losses differ on average, for each.

# %%
adamw_differs_by = 0.0001  # predict: nats per token
sgd_differs_by = 0.2  # predict: nats per token


def train(optimizer_class, lr, factor, updates=40):
    model = fresh()
    optimizer = optimizer_class(model.parameters(), lr=lr)
    losses, norms = [], []
    for step in range(updates):
        inputs, targets = batch(step, batch_size=6)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        (factor * loss).backward()
        norms.append(flat(model).norm().item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


runs = {
    (name, factor): train(kind, lr, factor)
    for name, kind, lr in (("AdamW", AdamW, 1e-3), ("SGD", SGD, 0.03))
    for factor in (1, 3)
}
for name, prediction in (("AdamW", adamw_differs_by), ("SGD", sgd_differs_by)):
    right, wrong = (runs[name, factor][0][-10:] for factor in (1, 3))
    compare(prediction, sum(abs(a - b) for a, b in zip(right, wrong, strict=True)) / 10, "nats per token", of=name)

# %%
figure = plots.Figure(figsize=(10, 3.2), layout="constrained")
left, middle, right = figure.subplots(1, 3)
for axes, name in ((left, "AdamW"), (middle, "SGD")):
    for factor, color in ((1, plots.TRAIN), (3, plots.VALIDATION)):
        style = "-" if factor == 1 else "--"
        _ = axes.plot(runs[name, factor][0], style, color=color, label="divided" if factor == 1 else "not divided")
    _ = axes.set(xlabel="update", ylabel="loss (nats per token)", title=f"Losses with {name}", ylim=(2.4, 5.5))
    _ = axes.legend(frameon=False)
for factor, color in ((1, plots.TRAIN), (3, plots.VALIDATION)):
    _ = right.plot(runs["AdamW", factor][1], color=color, label="divided" if factor == 1 else "not divided")
_ = right.set(xlabel="update", ylabel="norm", title="Gradient norm with AdamW", ylim=(0, 22))
_ = right.legend(frameon=False)
for axes in (left, middle, right):
    axes.spines[["top", "right"]].set_visible(False)
figure if answered(adamw_differs_by, sgd_differs_by) else None

# %% [markdown]
# **Explain** the two curves with AdamW. Is the bug harmless there?

# %% [markdown] tags=["answer"]
# AdamW divides the average of the gradients by the root of the average of their squares, and a constant factor
# cancels. What remains is its epsilon. So with AdamW alone the bug costs nothing, and nobody notices it, until
# something reads the size of the gradient: a clipping limit acts three times too early, an alarm on the norm is three
# times too sensitive, and the day somebody changes k, or the optimizer, the run changes too. The norm shows it from
# the first update on.

# %% [markdown]
# ## 4. Tokens that weigh more
#
# One micro-batch is full: 6 sequences of 64 scored tokens. The other holds 6 short texts of 8 tokens, the rest is
# padding (target -100). Average each on its own and divide by 2. **Predict** how many times as much a token of the
# second counts, and by how much the gradient is off, in percent of its length.

# %%
times_as_much = 8  # predict: times
off_by = 60  # predict: %

padded = y.clone()
padded[6:, 8:] = -100
scored = int((padded != -100).sum())
model = fresh()


def gradient(loss_of):
    model.zero_grad()
    for inputs, targets in ((x[:6], padded[:6]), (x[6:], padded[6:])):
        loss_of(model(inputs).flatten(0, 1), targets.flatten()).backward()
    return flat(model)


means = gradient(lambda logits, targets: F.cross_entropy(logits, targets) / 2)
tokens = gradient(lambda logits, targets: F.cross_entropy(logits, targets, reduction="sum") / scored)
compare(times_as_much, (1 / (2 * 6 * 8)) / (1 / (2 * 6 * 64)), "times")
compare(off_by, 100 * ((means - tokens).norm() / tokens.norm()).item(), "%")

# %% [markdown]
# ## 5. Clip the sum, not its growth
#
# The first batch's gradient is about 4.2 long. Clip it to 1, once at the end or after each micro-batch's backward.
# **Predict** the angle between the clipped gradient and the true one, in degrees, for 3 micro-batches and clipping
# after each.

# %%
degrees = 10  # predict: degrees


def clipped(k, each, limit=1.0):
    model = fresh()
    for inputs, targets in zip(x.chunk(k), y.chunk(k), strict=True):
        (F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / k).backward()
        if each:
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    return flat(model).double()


true = clipped(1, each=False, limit=math.inf)


def angle(gradient):
    return math.degrees(math.acos(min(1.0, (gradient @ true / gradient.norm() / true.norm()).item())))


compare(degrees, angle(clipped(3, each=True)), "degrees")
for limit in (4.0, 1.0, 0.25) if answered(degrees) else ():
    angles = [f"{angle(clipped(k, each=True, limit=limit)):3.0f}" for k in (2, 3, 6, 12)]
    once = angle(clipped(12, each=False, limit=limit))
    print(f"limit {limit:4}: after each of 2, 3, 6, 12: {' '.join(angles)} degrees; once: {once:.0f}")

# %% [markdown]
# **Explain**: how does the angle depend on the limit and on the number of micro-batches, and why?

# %% [markdown] tags=["answer"]
# Each clipping shortens what was added so far, and leaves what is still to come as it is. A micro-batch that came
# early has been shortened many times at the end, the last one once. The smaller the limit, the more is cut each time;
# in the extreme, the result points where the last micro-batch does. Clipped once, all of them are shortened by one
# factor.

# %% [markdown]
# ## 6. How much of it is noise?
#
# Train for 60 updates. At some of them, keep the gradient of each of 12 sequences by itself. From these twelve your
# `noise_estimates` estimates |G|² and tr(Σ), and your `noise_scale` their ratio over several updates, the gradient
# noise scale: the number of sequences at which noise and signal are equal. **Predict** it for the first updates and for
# the last ones. Before the exercise `noise_scale` is solved, this section says only where it is.

# %%
noise_scale_at_first = 2  # predict: sequences
noise_scale_at_last = 20  # predict: sequences
first, last = (0, 1, 2), (50, 58, 59, 60)


def noise_exercise():
    """Your exercises.py, or the file beside the solved notebook; None while the noise scale is not written in it."""
    beside = Path("exercises.py")
    try:
        exercises = load(beside if beside.exists() else work_file(find_lab("04")))
        exercises.noise_scale([torch.eye(2)], 1)
    except (UserError, NotImplementedError) as reason:
        print(reason)
        return None
    return exercises


def gradients_of_sequences(model, step, count=12):
    """The gradient of each of `count` sequences, [count, P]."""
    inputs, targets = batch(10_000 + step, batch_size=count)
    rows = []
    for i in range(count):
        model.zero_grad()
        F.cross_entropy(model(inputs[i : i + 1]).flatten(0, 1), targets[i]).backward()
        rows.append(flat(model))
    return torch.stack(rows)


exercise, found, kept = noise_exercise(), {}, {}
if exercise:
    model = fresh()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    for step in range(61):
        if step < 3 or step % 10 == 0 or step > 57:
            gradients = gradients_of_sequences(model, step)
            found[step] = exercise.noise_estimates(gradients, 1)
            if step in first + last:
                kept[step] = gradients
        _ = starter.train_step(model, optimizer, *batch(step), 12)
    at_first, at_last = (exercise.noise_scale([kept[step] for step in steps], 1) for steps in (first, last))
    compare(noise_scale_at_first, at_first, "sequences", of="updates 0 to 2")
    compare(noise_scale_at_last, at_last, "sequences", of="updates 50 to 60")

# %%
figure = plots.Figure(figsize=(6.5, 3.2), layout="constrained")
axes = figure.subplots()
signal = [estimate for estimate, _ in found.values()]
one, twelve = ([g + s / size for g, s in found.values()] for size in (1, 12))  # |G|² + tr(Σ) / B
_ = axes.plot(list(found), one, "o-", color=plots.VALIDATION, label="one sequence, mean of 12")
_ = axes.plot(list(found), twelve, "o-", color=plots.TRAIN, label="mean of the 12 gradients")
_ = axes.plot(list(found), signal, "o--", color=plots.RATE, label="estimate of |G|²")
_ = axes.set(xlabel="update", ylabel="squared norm", yscale="log", title="What a norm is made of")
_ = axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure if found and answered(noise_scale_at_first, noise_scale_at_last) else None

# %% [markdown]
# **Explain**: the loss has fallen. Why does the noise scale change with it? What does that say about a batch size that
# is right at the start?

# %% [markdown] tags=["answer"]
# At the start every sequence says the same: these characters are frequent, those are not. The signal is large. Once
# that is learned, |G|² falls, and what is left differs from sequence to sequence, so the noise falls less. Averages
# over more sequences are needed to see the same share of signal: later in a run larger batches pay, and some runs let
# theirs grow. A single estimate jumps, which is why both are averaged before they are divided.

# %% [markdown]
# ## 7. What is left over
#
# 1,000 micro-batches, k = 32, three epochs. **Predict** the number of updates, and by which factor the last update of
# each epoch is too small if its losses are divided by 32.

# %% tags=["nbval-check-output"]
updates = 3 * 32  # predict: updates
too_small_by = 4  # predict: times

groups = [len(group) for _ in range(3) for group in torch.arange(1000).split(32)]
compare(updates, len(groups), "updates")
compare(too_small_by, 32 / groups[-1], "times")

# %% [markdown]
# ## What to keep
#
# - Losses that add up to one mean make gradients that add up to one gradient, to rounding. No learning rate takes part.
# - Only activations shrink. Gradients wait beside them from the second micro-batch on.
# - Divide by what the whole group holds: tokens, not micro-batches.
# - Clip, step, schedule and log once, when the gradient is complete. Log the norm from before clipping.
# - The norm of a batch is signal plus noise, and accumulation measures both for free.
