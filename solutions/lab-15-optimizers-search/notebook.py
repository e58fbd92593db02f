# %% [markdown]
# # Lab 15: optimizers and search
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Read the
# [lab page](../../labs/lab-15-optimizers-search.md) beside this notebook.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import optuna
import torch

from rankzero.curriculum import find_lab
from rankzero.learn.runs.predictions import compare

starter = find_lab("15").import_starter()  # the functions of tune.py, not copies of them
torch.set_num_threads(1)
optuna.logging.set_verbosity(optuna.logging.WARNING)

# %% [markdown]
# ## 1. The first step of Adam
#
# A weight of 1.0 gets a gradient of 0.0003. **Predict** the weight after one step of Adam at a rate of 0.1.

# %%
weight_after = 0.9  # predict: weight

weight = torch.ones(1, dtype=torch.float64, requires_grad=True)
adam = torch.optim.Adam([weight], lr=0.1)
weight.grad = torch.tensor([0.0003], dtype=torch.float64)
_ = adam.step()

compare(weight_after, weight.item(), "of the weight")

# %% [markdown]
# **Explain**: which two numbers are equal in the first step, so that the size of the gradient cancels?

# %% [markdown] tags=["answer"]
# m̂ is the gradient g, and √v̂ is |g|: their quotient is 1, and the weight moves by the rate. Only ε makes the step a
# little shorter.

# %% [markdown]
# ## 2. A matrix for Muon
#
# Muon replaces each singular value s of the momentum by a s + b s³ + c s⁵, five times. Before that it divides the
# matrix by its Frobenius norm. A matrix has ten singular values of 1. **Predict** the largest singular value that the
# first iteration begins with.

# %%
first_value = 0.316  # predict: singular value

matrix = torch.eye(10, dtype=torch.float64)
compare(first_value, torch.linalg.svdvals(matrix / matrix.norm()).max().item(), "as singular value")

# %% [markdown]
# **Explain**: why divide by this norm, and not by the largest singular value?

# %% [markdown] tags=["answer"]
# The Frobenius norm is the root of the sum of the squares of all singular values: √10 here. It is never smaller than
# the largest one, so no value is above 1 afterwards, and it costs no decomposition.

# %% [markdown]
# The plot shows one iteration as a function of s, and five of them.

# %%
s = np.linspace(0, 1, 400)
figure, axes = plt.subplots(figsize=(6, 3))
value = s
for count in range(1, 6):
    value = 3.4445 * value - 4.7750 * value**3 + 2.0315 * value**5
    if count in (1, 5):
        _ = axes.plot(s, value, label=f"{count} iteration{'s' * (count > 1)}")
_ = axes.axhline(1, color="gray", linewidth=0.8)
_ = axes.set(xlabel="singular value before", ylabel="after", ylim=(0, 1.3))
_ = axes.legend(frameon=False)

# %% [markdown]
# ## 3. How many random trials
#
# **Predict** how many random trials find the best 2 % of a space with probability 95 %.

# %%
trials = 149  # predict: trials

compare(trials, math.ceil(math.log(0.05) / math.log(0.98)), "trials")

# %% [markdown]
# **Explain**: why does the number of settings not matter?

# %% [markdown] tags=["answer"]
# "Best 2 %" is a share of the space, whatever its dimension: a random trial is in it with probability 0.02.

# %% [markdown]
# ## 4. The best of many equal trials
#
# Twenty trials have the same settings and differ by noise with a standard deviation of 1. **Predict** by how many
# standard deviations the best of them is better than their mean.

# %%
luck = 1.87  # predict: standard deviations

best = np.random.default_rng(0).standard_normal((20_000, 20)).max(axis=1)
compare(luck, float(best.mean()), "standard deviations")

# %% [markdown]
# **Explain**: what does this mean for `study.best_value`?

# %% [markdown] tags=["answer"]
# It is too good, even if no setting has any effect. Train the best settings again on fresh seeds.

# %% [markdown]
# ## 5. A seed that repeats
#
# A study draws five rates with `TPESampler(seed=42)`, is stopped, and goes on with a new `TPESampler(seed=42)`.
# **Predict** how many of the next five rates are among the first five.


# %%
def draw(study: optuna.Study, seed: int) -> list[float]:
    study.sampler = optuna.samplers.TPESampler(seed=seed)
    study.optimize(lambda trial: trial.suggest_float("lr", 1e-4, 1e-1, log=True), n_trials=5)
    return [trial.params["lr"] for trial in study.trials[-5:]]


repeated = 5  # predict: rates

study = optuna.create_study()
compare(repeated, len(set(draw(study, 42)) & set(draw(study, 42))), "rates")

# %% [markdown]
# **Explain**: how does the starter seed its sampler, and what would two processes with the same seed do?

# %% [markdown] tags=["answer"]
# With the study's seed and the trial's number. Two processes with the same sampler's seed would draw the same settings
# twice, and half of the work would be lost.

# %% [markdown]
# ## 6. The same tokens for every batch
#
# A trial of the starter trains on 16,384 tokens, in sequences of 32 tokens. **Predict** how many steps a trial with
# batches of 64 sequences takes.

# %%
steps = 8  # predict: steps

run = starter.Run(starter.make_parser().parse_args(["--device", "cpu", "--tokens", "16384"]))
setting = run.default | {"batch_size": 64}
curves = {}


def curve(setting: dict[str, float]) -> list[tuple[int, float]]:
    reports: list[tuple[int, float]] = []
    starter.train_trial(run, setting, 0, lambda tokens, train_loss, val_loss: reports.append((tokens, val_loss)))
    return reports


curves["rate 0.001"] = curve(setting)
compare(steps, 16384 // (64 * 32), "steps")

# %% [markdown]
# **Explain**: which rate would such a trial need, compared with batches of 8?

# %% [markdown] tags=["answer"]
# A higher one: it takes an eighth of the steps, and AdamW's step is about the rate. The next plot shows three rates.

# %%
for rate in (5e-3, 2e-2):
    curves[f"rate {rate:g}"] = curve(setting | {"lr": rate})
figure, axes = plt.subplots(figsize=(6, 3))
for name, reports in curves.items():
    _ = axes.plot(*zip(*reports, strict=True), ".-", label=name)
_ = axes.set(xlabel="tokens", ylabel="validation loss (nats per token)", title="Batches of 64")
_ = axes.legend(frameon=False)

# %% [markdown]
# ## 7. The median rule
#
# Five complete trials have the losses 3.0, 3.1, 3.2, 3.3 and 3.4 at 4,096 tokens. A running trial reports 3.25 there,
# and `n_startup_trials` is 5. **Predict** whether the rule stops it: 1 for yes, 0 for no.

# %%
stopped = 1  # predict: 1 or 0

study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=4096))
for loss in (3.0, 3.1, 3.2, 3.3, 3.4):
    study.add_trial(optuna.trial.create_trial(value=loss, intermediate_values={4096: loss}))
trial = study.ask()
trial.report(3.25, step=4096)
compare(stopped, int(trial.should_prune()), "as answer")

# %% [markdown]
# **Explain**: what would the rule say with 3.15, and what if the trial had reported 3.05 earlier, at 2,048 tokens?

# %% [markdown] tags=["answer"]
# With 3.15 it goes on: the median is 3.2. The rule compares the *best* value so far, so a trial with 3.05 before goes
# on too, although it is getting worse.
