# %% [markdown]
# # Lab 16: debugging clinic
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Read the
# [lab page](../../labs/lab-16-debugging-clinic.md) beside this notebook. The experiments show looks, not causes: the
# diagnosis of each patient stays yours.

# %%
import math
import statistics
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from rankzero.curriculum import find_lab
from rankzero.learn.runs.predictions import compare

starter = find_lab("16").import_starter()  # the functions of clinic.py, not copies of them
torch.set_num_threads(1)


def patient(number, **changes):
    """The log of a patient, with other arguments where `changes` has them."""
    return starter.patient_module(number).train(**(starter.setup_of(number, 0, "cpu", False) | changes))


def twin(number, **changes):
    """The log of its healthy twin."""
    return starter.cure_of(number)(**(starter.setup_of(number, 0, "cpu", False) | changes))


# %% [markdown]
# ## 1. The first loss
#
# Patient 06 is a network for ten classes. **Predict** its twin's loss in the first step, in nats.

# %%
first_loss = 2.30  # predict: nats

healthy = twin("06", epochs=1)
compare(first_loss, healthy["loss"][0], "nats")

# %% [markdown]
# **Explain**: which formula gives this number, and what does a first loss above or below it say?

# %% [markdown] tags=["answer"]
# ln 10 = 2.303: an untrained network gives ten classes about the same probability. Far above: the first logits are too
# large. Clearly below: the network has learned already, or its inputs contain its targets.

# %% [markdown]
# ## 2. Data from which nothing can be learned
#
# The twin of patient 12 trains on *random* tokens out of 96. **Predict** the mean loss of its last ten steps.

# %%
last_loss = 4.57  # predict: nats per token

tokens = torch.randint(96, (60_000,), generator=torch.Generator().manual_seed(0))
curves = {"twin": twin("12", tokens=tokens)["loss"]}
compare(last_loss, statistics.fmean(curves["twin"][-10:]), "nats per token")

# %% [markdown]
# Patient 12 trains on the same random tokens. **Predict** its loss before you look at the plot.

# %%
leaked_loss = 0.01  # predict: nats per token

curves["patient"] = patient("12", tokens=tokens)["loss"]
compare(leaked_loss, statistics.fmean(curves["patient"][-10:]), "nats per token")

# %% [markdown]
# The plot shows both losses, and the loss of equal probabilities.

# %%
figure, axes = plt.subplots(figsize=(6, 3))
for name, losses in curves.items():
    _ = axes.plot(losses, label=name)
_ = axes.axhline(math.log(96), color="gray", linestyle=":", label="ln 96")
_ = axes.set(xlabel="step", ylabel="loss (nats per token)", title="Random tokens")
_ = axes.legend(frameon=False)

# %% [markdown]
# **Explain**: what has patient 12 learned, if the tokens cannot be predicted?

# %% [markdown] tags=["answer"]
# To copy. Random tokens hold nothing that helps with other tokens, so a loss below ln 96 proves that each target is
# visible in the inputs. On real text the same loss could still pass for talent.

# %% [markdown]
# ## 3. One batch by heart
#
# Patient 10 does not learn at all: its loss stays near ln 10. It now gets a data set of one batch, 32 pictures, for 100
# epochs. **Predict** its last loss.

# %%
by_heart = 2.3  # predict: nats

data = starter.setup_of("10", 0, "cpu", False)
batch = {name: data[name][:32] for name in ("images", "labels")}
log = patient("10", **batch, epochs=100)
compare(by_heart, log["loss"][-1], "nats")

# %% [markdown]
# **Explain**: what does the test with one batch exclude for this patient, and what can it not exclude? Draw the next
# look from it, then examine the patient.

# %% [markdown] tags=["answer"]
# A network that trains on one batch learns these 32 pictures by heart, whatever their labels, as long as each picture
# keeps its label. Here it cannot: with every epoch something about the batch changes. The next look is to print
# pictures and labels of the same batch in two epochs.

# %% [markdown]
# ## 4. A gradient norm
#
# Patient 02 and its twin begin with the same weights and the same batch of 64 pictures in eight micro-batches. Their
# first losses are equal. **Predict** the ratio of their first gradient norms, patient to twin.

# %%
ratio = 8  # predict: times

norms = [log["gradient_norm"][0] for log in (patient("02", steps=1), twin("02", steps=1))]
compare(ratio, norms[0] / norms[1], "times")

# %% [markdown]
# **Explain**: would clipping to a norm of 0.1 cure this patient? Would AdamW?

# %% [markdown] tags=["answer"]
# Clipping would hide the factor, because both gradients have the same direction and would be clipped to the same norm.
# AdamW divides by the root of the mean square, where the factor cancels. Neither touches the cause: the next change of
# the optimizer brings the symptom back.

# %% [markdown]
# ## 5. The noise of a comparison
#
# Two healthy runs differ in their learning rate. Per step, their losses differ by a number that varies. **Predict** by
# which factor its standard deviation is smaller if both runs draw the same batches.

# %%
factor = 2.1  # predict: times

base = twin("01", steps=200)["loss"]
slow = {name: twin("01", steps=200, lr=0.005, seed=seed)["loss"] for name, seed in (("same", 0), ("other", 1))}
differences = {name: [a - b for a, b in zip(base, losses, strict=True)] for name, losses in slow.items()}
spread = {name: statistics.stdev(values[100:]) for name, values in differences.items()}
compare(factor, spread["other"] / spread["same"], "times")

# %% [markdown]
# The plot shows the differences step by step.

# %%
figure, axes = plt.subplots(figsize=(6, 3))
for name, values in differences.items():
    _ = axes.plot(values, label=f"{name} batches")
_ = axes.axhline(0, color="gray", linewidth=0.8)
_ = axes.set(xlabel="step", ylabel="difference (nats)", title="Rate 0.01 minus rate 0.005")
_ = axes.legend(frameon=False)

# %% [markdown]
# **Explain**: how many times fewer steps does a comparison with the same batches need?

# %% [markdown] tags=["answer"]
# The square of the factor: the error of a mean over n steps falls as 1/√n.

# %% [markdown]
# ## 6. A twin that is not new
#
# Patient 05 trains, and then its twin trains with the *same* arguments, the model included. **Predict** the twin's
# first loss.

# %%
used_loss = 0.33  # predict: nats

arguments = starter.setup_of("05", 0, "cpu", False)
_ = starter.patient_module("05").train(**arguments)
compare(used_loss, starter.cure_of("05")(**arguments)["loss"][0], "nats")

# %% [markdown]
# **Explain**: patient 05's own loss ended near 1.6. Why does the twin begin so much lower?

# %% [markdown] tags=["answer"]
# The twin continues with the patient's weights, and those are good: the patient's accuracy is near 1. Only the loss
# that the patient computes from them cannot fall further. The first loss of a new model would be near 2.3.

# %% [markdown]
# ## 7. Two ranks
#
# Patient 24 runs on two ranks. **Predict** the mean difference of the two ranks' losses over all steps.

# %%
difference = 0  # predict: nats

starter.PATIENCE_S = 60  # seconds: a busy machine is no hang
options = starter.make_parser().parse_args([])
with tempfile.TemporaryDirectory() as folder:
    run = starter.run_ranks(None, "24", options, Path(folder))
losses = [log["loss"] for log in run.logs]
compare(difference, statistics.fmean(abs(a - b) for a, b in zip(*losses, strict=True)), "nats")

# %% [markdown]
# **Explain**: which difference do you expect between two healthy ranks, and why?

# %% [markdown] tags=["answer"]
# About that of two batches, a few tenths of a nat: healthy ranks hold the same weights and train on different data.
# Losses that agree digit by digit say that the data agree too.
