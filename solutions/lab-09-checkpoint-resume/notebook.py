# %% [markdown]
# # Lab 09: checkpoint and resume
#
# **What must a checkpoint contain, and how often must a run save, so that a kill costs minutes and not days?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a rough guess. Read the [lab page](../../labs/lab-09-checkpoint-resume.md) beside this notebook. It takes
# under a minute on two CPU cores.

# %%
# %matplotlib inline
import copy
import io
import random

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

from rankzero.curriculum import find_lab
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("09").import_starter()  # the functions of train_resumable.py, not copies of them
corpus = load_corpus()


# %% [markdown]
# Each experiment starts from the same weights. The number of a step decides its batch. Dropout draws from torch's
# random generator.


# %%
def fresh(dropout=0.1):
    torch.manual_seed(0)
    model = GPT(GPTConfig(corpus.vocab_size, n_layer=2, hidden_dim=64, dropout=dropout))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(model, optimizer, steps):
    """The loss of each of these steps."""
    losses = []
    for step in steps:
        x, y = random_batch(corpus.train, step=step, seed=0, batch_size=4, block_size=32)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).transpose(1, 2), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def file_of(state):
    """The bytes that torch.save writes for a state."""
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


model, optimizer = fresh()
print(f"{sum(p.numel() for p in model.parameters()):,} parameters in {len(list(model.parameters()))} tensors")

# %% [markdown]
# ## 1. The size of a checkpoint
#
# The weights take 4 bytes per parameter in fp32. A file holds the model and AdamW after one step. **Predict** its bytes
# per parameter.

# %%
bytes_per_parameter = 12.0  # predict: bytes per parameter

train(model, optimizer, range(1))
data = file_of([model.state_dict(), optimizer.state_dict()])
compare(bytes_per_parameter, len(data) / sum(p.numel() for p in model.parameters()), "bytes per parameter")

# %% [markdown]
# **Explain**: what are the other 8 bytes, and why is the measurement a little higher?

# %% [markdown] tags=["answer"]
# The other 8 bytes are AdamW's two averages. The rest are names, shapes and the padding that aligns each tensor in the
# file. Larger tensors make the rest negligible.

# %% [markdown]
# ## 2. A flipped bit
#
# One bit is flipped in the weights of a file, at 20 random places, one file each. **Predict** how many of the 20 files
# `torch.load` refuses.

# %% tags=["nbval-check-output"]
refused = 0  # predict: files

weights = torch.linspace(-1, 1, 5000, dtype=torch.float64)
intact = file_of({"weights": weights})
start = intact.index(weights.numpy().tobytes())
draw, seen = random.Random(0), {"refused": 0, "equal": 0, "wrong": 0}
for _ in range(20):
    damaged = bytearray(intact)
    damaged[start + draw.randrange(8 * len(weights))] ^= 1 << draw.randrange(8)
    try:
        loaded = torch.load(io.BytesIO(bytes(damaged)), weights_only=True)["weights"]
        seen["equal" if torch.equal(loaded, weights) else "wrong"] += 1
    except Exception:
        seen["refused"] += 1
compare(refused, seen["refused"], "files")

# %% [markdown]
# **Explain**: the file holds a checksum of each tensor. Does `torch.load` compare it?

# %% [markdown] tags=["answer"]
# No: torch's reader does not compare the checksums of tensors. If you store a digest of your own and compare it before
# loading, all 20 files are refused.

# %% [markdown]
# ## 3. The random state
#
# A run saves its model and AdamW after step 5, and continues. A second run loads them, seeds torch again and continues
# too. **Predict** how many of the next 5 losses are equal bit for bit: first with dropout 0.1, then without dropout.

# %% tags=["nbval-check-output"]
equal_with_dropout = 0  # predict: losses
equal_without = 5  # predict: losses


def equal_losses(dropout):
    model, optimizer = fresh(dropout)
    train(model, optimizer, range(5))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    uninterrupted = train(model, optimizer, range(5, 10))
    model, optimizer = fresh(dropout)
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    return sum(a == b for a, b in zip(train(model, optimizer, range(5, 10)), uninterrupted, strict=True))


compare(equal_with_dropout, equal_losses(0.1), "losses", of="with dropout")
compare(equal_without, equal_losses(0.0), "losses", of="without dropout")

# %% [markdown]
# **Explain**: why does the run with dropout differ from the first step on?

# %% [markdown] tags=["answer"]
# Dropout draws from torch's generator, which the second run has seeded again, so other activations are dropped. Without
# dropout, nothing draws from this generator. The starter seeds each step by its number, so it has no such state.

# %% [markdown]
# ## 4. The position in the data
#
# An epoch has 100 windows, and each batch takes 4. The run is killed after every 10 batches. It restarts its epoch at
# the beginning, in the same order, and is killed 5 times. **Predict** how many of the 100 windows it never draws.

# %% tags=["nbval-check-output"]
never_seen = 60  # predict: windows


def windows_seen(position_is_saved, kills=5):
    sampler, seen = starter.EpochSampler(100, seed=0), set()
    for _ in range(kills):
        for _ in range(10):
            seen |= set(sampler.next(4).tolist())
        saved = sampler.state_dict()
        sampler = starter.EpochSampler(100, seed=0)
        if position_is_saved:
            sampler.load_state_dict(saved)
    return seen


compare(never_seen, 100 - len(windows_seen(position_is_saved=False)), "windows")
if answered(never_seen):
    print(f"with the position in the file: {100 - len(windows_seen(position_is_saved=True))} windows never seen")

# %% [markdown]
# ## 5. A state dict is not a copy
#
# A thread writes `model.state_dict()` while training continues. **Predict** which share of its tensors has changed
# after one more step, in percent.

# %% tags=["nbval-check-output"]
changed_percent = 100  # predict: percent of the trained tensors

model, optimizer = fresh()
train(model, optimizer, range(1))
live = {name: dict(model.state_dict())[name] for name, _ in model.named_parameters()}
before = copy.deepcopy(live)
train(model, optimizer, range(1, 2))
changed = sum(not torch.equal(live[name], before[name]) for name in live)
compare(changed_percent, 100 * changed / len(live), "percent of the trained tensors")

# %% [markdown]
# **Explain**: `state_dict()` was called before the step. Why does it show the weights after the step?

# %% [markdown] tags=["answer"]
# Its tensors share memory with the parameters, which the optimizer changes in place. Only a copy is a snapshot.

# %% [markdown]
# ## 6. How often to save
#
# A save takes 60 s, a restart 300 s, and failures come every 4 hours on average. **Predict** the seconds of training
# between two saves for which the run takes the least time.

# %% tags=["nbval-check-output"]
best = 1314  # predict: seconds

intervals = np.geomspace(60, 40_000, 20_000)


def time_per_second_of_work(mean, save=60.0, restart=300.0):
    """Expected seconds for each second of training, with a failure every `mean` seconds."""
    return (mean + restart) * np.expm1((intervals + save) / mean) / intervals


cost = time_per_second_of_work(4 * 3600)
compare(best, round(float(intervals[cost.argmin()])), "seconds")

# %% [markdown]
# The curves show what the interval costs, for failures every 4 hours and every 20 minutes. The points are the lowest
# cost, the crosses Young's sqrt(2 · save · M).

# %%
if answered(best):
    figure, axes = plt.subplots(figsize=(7, 3.5))
    for label, mean in (("4 hours", 4 * 3600), ("20 minutes", 1200)):
        cost = time_per_second_of_work(mean)
        (line,) = axes.loglog(intervals, cost, label=f"a failure every {label}")
        axes.plot(intervals[cost.argmin()], cost.min(), "o", color=line.get_color())
        young = np.sqrt(2 * 60 * mean)
        axes.plot(young, np.interp(young, intervals, cost), "x", color=line.get_color())
    axes.set(xlabel="seconds of training between two saves", ylabel="time for each second of work", ylim=(1, 10))
    axes.legend()
    plt.show()

# %% [markdown]
# **Explain**: the curves are flat around their lowest points and steep to the right. What follows for an estimate of
# the failure rate that is wrong by a factor of two?

# %% [markdown] tags=["answer"]
# Little: the best interval changes by a factor of about 1.4, and the cost near the best hardly at all. If in doubt,
# save more often: too short an interval costs save time in proportion, too long an interval costs exponentially.
# `rankzero interval` computes the interval and the cost of your own run.
