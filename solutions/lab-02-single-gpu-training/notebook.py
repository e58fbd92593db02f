# %% [markdown]
# # Lab 02: single-GPU training loop
#
# **What does one training step compute, what does it keep in memory, and what must survive when it stops?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the
# [lab page](../../labs/lab-02-single-gpu-training.md) beside this notebook. All of it takes under a minute on two CPU
# cores; on a GPU it runs unchanged.

# %%
# %matplotlib inline
import contextlib
import io
import tempfile
from pathlib import Path

import torch

from rankzero.curriculum import find_lab
from rankzero.learn.data.batches import random_batch, validation_batches
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device, seed_everything
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import MIB, PhaseMemory
from rankzero.learn.runs import plots
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("02").import_starter()  # the functions of train_single_gpu.py, not copies of them
device = choose_device()
corpus = load_corpus()
config = GPTConfig(corpus.vocab_size)
print(config.summary())


# %% [markdown]
# Each experiment starts from the same fresh model, and asks for the batch of a step by its number.


# %%
def fresh():
    seed_everything(0)
    model = GPT(config).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def batch(step, batch_size=12):
    x, y = random_batch(corpus.train, step=step, seed=0, batch_size=batch_size, block_size=config.block_size)
    return x.to(device), y.to(device)


x, y = batch(step=0)
print("inputs ", corpus.decode(x[0, :24]).__repr__())
print("targets", corpus.decode(y[0, :24]).__repr__())
print("shape  ", tuple(x.shape), x.dtype)

# %% [markdown]
# ## 1. The first loss
#
# The vocabulary has 96 characters, and the model has not learned anything yet. **Predict** its loss on the first
# batch, in nats per token.

# %%
first_loss = 4.564  # predict: nats per token

model, optimizer = fresh()
measured = starter.train_step(model, optimizer, x, y).item()
compare(first_loss, measured, "nats per token")

# %% [markdown]
# **Explain**: where does that number come from, and what would a first loss of 12 tell you?

# %% [markdown] tags=["answer"]
# A model that knows nothing gives each of the 96 characters about the same probability, 1/96, and the loss is the
# negative logarithm of the probability of the right one: ln 96 = 4.564. A first loss of 12 would say that the model is
# confidently wrong: its initial weights are too large, or the targets do not belong to the inputs.

# %% [markdown]
# The measured value is a little *below* ln 96. Guessing evenly should be the best that an ignorant model can do, so
# something favors the right answer. Split the tokens of a large batch into those whose target repeats the input
# character (here spaces follow spaces, and hyphens follow hyphens) and the others. **Predict** by how many nats the
# loss is lower on the repeats.

# %%
repeats_are_easier_by = 0.9  # predict: nats per token

model, _ = fresh()
inputs, targets = batch(step=0, batch_size=200)
with torch.no_grad():
    losses = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="none")
repeats = (inputs == targets).flatten()
if answered(repeats_are_easier_by):
    print(f"{repeats.float().mean():.0%} of targets repeat their input")
compare(repeats_are_easier_by, (losses[~repeats].mean() - losses[repeats].mean()).item(), "nats per token")

# %% [markdown]
# **Explain**: why does an untrained model of this kind expect the same character again?

# %% [markdown] tags=["answer"]
# The output layer is tied to the token embedding. The residual stream carries the embedding of the input character
# from the bottom to the top nearly unchanged, and the output layer compares it with the embeddings of all characters,
# so the input's own logit is nearly always the largest. On the other targets the loss is a little above ln 96, as it
# must be for a preference without knowledge. So "loss near ln V" is a check with a tolerance of a tenth or so, not an
# identity.

# %% [markdown]
# ## 2. How many numbers are learned?
#
# Width C = 128, 4 layers, V = 96, sequences of T = 64 tokens. A layer has matrices of 3C², C², 4C² and 4C² numbers and
# two norms of C. Add both embeddings and the last norm; the output layer reuses the token embedding. **Predict** the
# number of parameters.

# %% tags=["nbval-check-output"]
parameters = 96 * 128 + 64 * 128 + 4 * (12 * 128**2 + 2 * 128) + 128  # predict: parameters

compare(parameters, model.parameter_count(), "parameters")

# %% [markdown]
# ## 3. Memory by phase
#
# Weights are fp32, four bytes each. AdamW keeps two averages per parameter, also fp32. **Predict** the optimizer's
# state after the first update, in MiB (2²⁰ bytes), and the activations that autograd keeps after the forward pass. The
# second is hard: start from one tensor of B·T·C floats, and guess how many such tensors a layer keeps.

# %%
optimizer_state = 8 * 808_064 / 2**20  # predict: MiB
activations = (4 * 16 + 2) * 4 * (12 * 64 * 128) / 2**20  # predict: MiB

model, optimizer = fresh()
with PhaseMemory(model, optimizer, device) as memory:
    starter.train_step(model, optimizer, x, y, after=memory.record)
compare(optimizer_state, memory.rows[2].optimizer / MIB, "MiB", of="optimizer state after the first update")
compare(activations, memory.rows[0].activations / MIB, "MiB", of="activations after the forward pass")

# %%
plots.plot_phases(memory.rows) if answered(optimizer_state, activations) else None

# %% [markdown]
# **Explain**: a layer keeps about 16 tensors of B·T·C floats: which? Which of the four roles is gone after backward,
# which appears only after the first update, and at which phase would this step run out of memory first?

# %% [markdown] tags=["answer"]
# One each for the input and the output of both norms, three for queries, keys and values, one for the attention's
# output, four for the MLP's inner layer before GELU and four after it: 4 + 3 + 1 + 8 = 16. Four layers and the input
# and output of the last norm make 66, or 24.75 MiB. The rest is the log-softmax of the loss, what norms and attention
# keep for each row, and the token ids.
#
# After backward the activations are gone: it frees each one when it has used it. The optimizer's state appears with
# the first update, because AdamW makes it lazily. So a run can survive its first forward and backward pass and fail at
# the first `optimizer.step()`, or survive the first step and fail in the second forward pass, where activations come
# on top of weights and optimizer state. In this model the activations are twice as large as all the rest together, so
# the end of the forward pass is the peak.

# %% [markdown]
# ## 4. What the batch size changes
#
# The batch doubles, from 12 to 24 sequences. **Predict** by what factor the weights, and by what factor the
# activations grow.

# %%
weights_factor = 1.0  # predict: times
activations_factor = 2.0  # predict: times

model, optimizer = fresh()
with PhaseMemory(model, optimizer, device) as doubled:
    starter.train_step(model, optimizer, *batch(step=0, batch_size=24), after=doubled.record)
compare(weights_factor, doubled.rows[0].weights / memory.rows[0].weights, "times", of="weights")
compare(activations_factor, doubled.rows[0].activations / memory.rows[0].activations, "times", of="activations")

# %% [markdown]
# ## 5. Gradients add up
#
# `backward` adds to `p.grad`; it does not replace it. Run it twice on the same batch without `zero_grad` in between.
# **Predict** how many times longer the gradient is.

# %%
gradient_factor = 2.0  # predict: times


def gradient_norm(backwards):
    model, _ = fresh()
    for _ in range(backwards):
        logits = model(x)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
    return torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()


compare(gradient_factor, gradient_norm(backwards=2) / gradient_norm(backwards=1), "times")

# %% [markdown]
# ## 6. A short run
#
# 160 steps, 12 sequences of 64 characters each. The loss starts near 4.5. **Predict** the validation loss at the end.

# %%
validation_loss = 2.6  # predict: nats per token

folder = Path(tempfile.mkdtemp())
options = ["--steps", "160", "--warmup-steps", "40", "--decay-steps", "160", "--eval-every", "40", "--out", str(folder)]
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    starter.main(options)
if answered(validation_loss):
    print(printed.getvalue())
log = folder / "lab-02-001" / "log.jsonl"
compare(validation_loss, plots.read_log(log)["eval"][-1]["val_loss"], "nats per token")

# %%
plots.plot_run(log) if answered(validation_loss) else None

# %% [markdown]
# ## 7. The learning rate
#
# That run used a warm-up of 40 steps and a cosine down to a tenth of the rate at step 160. **Predict** the rate of the
# very first step, as a fraction of the highest.

# %%
first_rate = 1 / 40  # predict: of the highest rate

rates = [event["lr"] for event in plots.read_log(log)["step"]]
compare(first_rate, rates[0] / max(rates), "of the highest rate")

# %%
plots.plot_learning_rate(log) if answered(first_rate) else None

# %% [markdown]
# **Explain**: many programs use `step / warmup_steps` with steps counted from 0. What does their first step do?

# %% [markdown] tags=["answer"]
# Nothing: its rate is 0, so the weights stay as they are, and one forward and backward pass is thrown away. (AdamW's
# averages do take the gradient in.) With `(step + 1) / warmup_steps` the first step already learns, and the last step
# of the warm-up reaches the full rate.

# %% [markdown]
# ## 8. A checkpoint without the optimizer
#
# The run above is saved. Go on from it for 40 steps, twice: once with the whole checkpoint, once with the weights
# alone, as if the optimizer's state had been left out. Both see the same batches. **Predict** how much higher the mean
# loss of these 40 steps is without the state.

# %%
extra_loss = 0.05  # predict: nats per token more

saved = torch.load(folder / "lab-02-001" / "checkpoint.pt", weights_only=True)


def go_on(with_optimizer):
    model, optimizer = fresh()
    model.load_state_dict(saved["model"])
    if with_optimizer:
        optimizer.load_state_dict(saved["optimizer"])
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    return [starter.train_step(model, optimizer, *batch(saved["step"] + i)).item() for i in range(40)]


whole, weights_only = go_on(with_optimizer=True), go_on(with_optimizer=False)
compare(extra_loss, (sum(weights_only) - sum(whole)) / 40, "nats per token more")

# %%
figure = plots.Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
axes.plot(whole, label="model and optimizer restored", color=plots.TRAIN)
axes.plot(weights_only, label="weights only", color=plots.VALIDATION)
axes.set(xlabel="step after the checkpoint", ylabel="training loss (nats per token)", title="Two ways to go on")
axes.legend(frameon=False)
figure if answered(extra_loss) else None

# %% [markdown]
# **Explain**: the weights are identical at the start. Why do the curves part?

# %% [markdown] tags=["answer"]
# The first loss is the same to the last bit, because it depends on the weights alone. The update after it does not:
# AdamW divides the averaged gradient by the root of the averaged squared gradient, and with both averages empty that
# quotient is plus or minus one for nearly every parameter. So the first steps move every weight by the full learning
# rate, whatever the size of its gradient. It takes some thirty steps to make up for that.

# %% [markdown]
# ## 9. Evaluation by tokens
#
# Evaluate the whole validation text in batches of 500 sequences: one of 500, and a last one of what is left. The right
# loss weighs every token the same. **Predict** how much the plain mean of the two batches' losses differs from it.

# %%
mean_of_means_off_by = 0.002  # predict: nats per token, with its sign

model, _ = fresh()
model.load_state_dict(saved["model"])
batches = list(validation_batches(corpus.val, count=100, batch_size=500, block_size=config.block_size))
print("sequences:", [len(inputs) for inputs, _ in batches])
right = starter.evaluate(model, batches, device)
means = [starter.evaluate(model, [one], device) for one in batches]
compare(mean_of_means_off_by, sum(means) / len(means) - right, "nats per token")

# %% [markdown]
# ## What to keep
#
# - A first loss near ln V says that model, loss and targets fit together.
# - A step's memory is weights + gradients + optimizer state, which depend on the model alone, and activations, which
#   grow with the batch.
# - `p.grad` adds up until someone clears it.
# - A run is its weights, its optimizer's state and its place in the data. Leave one out and it is another run.
