# %% [markdown]
# # Lab 06: profiling
#
# **Where does the time of a training step go, and how much of it could the device have done without?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the [lab page](../../labs/lab-06-profiling.md) beside this notebook. All of it takes
# under a minute on two CPU cores. Times differ between machines; counts hardly do.

# %%
# %matplotlib inline
import contextlib
import io
import os
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # the profiler is quiet

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile

from rankzero.curriculum import find_lab
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import seed_everything
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling import traces
from rankzero.learn.runs.predictions import answered, compare

lab = find_lab("06")
starter = lab.import_starter()  # the functions of profile_step.py, not copies of them
folder = Path(tempfile.mkdtemp())


# %% [markdown]
# A profile is a run of the starter; what is wanted of it is its trace.


# %%
def profiled(*options):
    """Runs the starter on the CPU; returns the events of its trace."""
    before = set(folder.glob("lab-06-*"))
    with contextlib.redirect_stdout(io.StringIO()):
        starter.main(["--device", "cpu", "--active", "4", *options, "--out", str(folder)])
    (made,) = set(folder.glob("lab-06-*")) - before
    return traces.read_trace(made / "trace.json")


def calls(events, name="aten::"):
    """Calls a step of the operations whose name begins like that."""
    steps = sum(event["name"].startswith("ProfilerStep#") for event in events if event.get("cat") == "user_annotation")
    return sum(e["name"].startswith(name) for e in events if e.get("cat") == "cpu_op") / steps


healthy = profiled()
step_ms, fractions = starter.account(healthy)
print("phases:", ", ".join(fractions))

# %% [markdown]
# ## 1. Fractions of a healthy step
#
# Backward runs twice as many FLOPs as forward. **Predict** the fraction of the step that forward takes, and the one
# that nothing takes: idle.

# %%
forward = 0.33  # predict: of the step
idle = 0.004  # predict: of the step

compare(forward, fractions["forward"], "of the step", of="forward")
compare(idle, fractions["idle"], "of the step", of="idle")
print(f"all five: {sum(fractions.values()):.6f}")

# %%
traces.plot_timeline(healthy) if answered(forward, idle) else None

# %% [markdown]
# **Explain**: what runs in the thin green bars at the left of each step, and what in the idle time?

# %% [markdown] tags=["answer"]
# `zero_grad` is the first thing of a step and belongs to the phase `optimizer`, which therefore has two ranges. Idle
# is Python between the phases: leaving one `with` block, entering the next, the loop itself, and the profiler's own
# bookkeeping at the end of a step. On this CPU nothing waits for anything, so idle is small.

# %% [markdown]
# ## 2. How many operations are there?
#
# The model has 4 layers and 27 parameter tensors. **Predict** how many calls of PyTorch operations one step makes,
# calls inside others included, and how many of them multiply two matrices (`aten::mm`).

# %%
all_calls = 2000  # predict: calls per step
products = 51  # predict: calls per step

compare(all_calls, calls(healthy), "calls per step", of="all operations")
compare(products, calls(healthy, "aten::mm"), "calls per step", of="products of matrices")

# %% [markdown]
# **Explain**: where does the number of products come from?

# %% [markdown] tags=["answer"]
# A block has four linear layers, and four blocks and the output layer make 17. Each is one product forward and two
# backward, one for the weights' gradient and one for the input's: 17 · 3 = 51. Attention's products are inside its
# fused operation. All the rest, some 1,950 calls, are views, norms, sums and the optimizer, and together take less
# time.

# %% [markdown]
# ## 3. FLOPs: formula and count
#
# B = 12, T = 64, N = 798,720 weights in products, L = 4 layers, H·Q = 128. **Predict** the FLOPs of a step in
# GFLOPs, by 6N + 12LHQT a token.

# %% tags=["nbval-check-output"]
gflops = 768 * (6 * 798_720 + 12 * 4 * 128 * 64) / 1e9  # predict: GFLOPs

config = GPTConfig(vocab_size=96)
seed_everything(0)
model = GPT(config)
tokens = torch.randint(96, (2, 12, 64))
counted = sum(starter.count_flops(model, *tokens))
compare(gflops, counted / 1e9, "GFLOPs")
if answered(gflops):
    print(f"{counted:,} counted")

# %% [markdown]
# ## 4. The first step
#
# Profile the first step alone, without warm-up. **Predict** how many more calls it makes than a later one, and how many
# calls of `aten::zeros_like` are among them.

# %%
more_calls = 350  # predict: calls more
new_tensors = 54  # predict: calls of aten::zeros_like

warnings.simplefilter("ignore")  # PyTorch warns of a profile without warm-up, rightly
first = profiled("--wait", "0", "--warmup", "0", "--active", "1")
compare(more_calls, calls(first) - calls(healthy), "calls more")
compare(new_tensors, calls(first, "aten::zeros_like"), "calls of aten::zeros_like")

# %% [markdown]
# **Explain**: what are they for? And what else does the first step of a fresh process do that these counts do not show?

# %% [markdown] tags=["answer"]
# They make AdamW's state: two averages for each of 27 tensors. In a fresh process the first forward pass also pays for
# what every kernel sets up at its first use, threads and buffers for example, which takes time and makes no calls. Here
# an earlier run has paid already; the lab page's *Break It* shows it in a process of its own.

# %% [markdown]
# ## 5. Three patients
#
# Each script does the same training with one thing done badly. **Predict** for each how many numbers per step hands to
# Python (a healthy one: 27), and by what factor its calls grow. Do not read the scripts yet.

# %%
reads_of_a = 162  # predict: numbers per step
calls_of_b = 16  # predict: times the healthy step's

short = ("--warmup", "1", "--active", "2")
patients = {name: profiled("--script", f"patient_{name}.py", *short) for name in "abc"}
compare(reads_of_a, calls(patients["a"], "aten::_local_scalar_dense"), "numbers per step", of="patient A")
compare(calls_of_b, calls(patients["b"]) / calls(healthy), "times", of="patient B")

# %%
figure = traces.Figure(figsize=(8, 2.6), layout="constrained")
axes = figure.subplots()
cases = {"healthy": healthy, **{f"patient {name.upper()}": events for name, events in patients.items()}}
for name, events in cases.items():
    left = 0.0
    for phase, fraction in starter.account(events)[1].items():
        axes.barh(name, fraction, left=left, color=traces.COLORS[phase], label=phase if name == "healthy" else None)
        left += fraction
axes.invert_yaxis()
axes.set(xlabel="fraction of the step", xlim=(0, 1))
figure.legend(loc="outside lower center", ncols=5, frameon=False)
figure if answered(reads_of_a, calls_of_b) else None

# %% [markdown]
# **Explain**: name each patient's illness by the marks. Then read the scripts.

# %% [markdown] tags=["answer"]
# A is idle for a good part of the step and reads 162 numbers: it looks at each gradient from Python, five numbers a
# tensor and once element by element. B has the fractions of a healthy step, which is what makes it hard to see, but
# 16 times the calls: one loss a token. C spends most of the step on data: it turns the whole text into tokens for
# each batch.

# %%
traces.plot_timeline(patients["a"], steps=2) if answered(reads_of_a) else None

# %% [markdown]
# ## 6. What a fix could gain
#
# **Predict** by what factor patient C gets faster if its data costs nothing, from its fraction alone (Amdahl).

# %%
faster = 2.6  # predict: times

data = starter.account(patients["c"])[1]["data"]
compare(faster, 1 / (1 - data), "times")

# %% [markdown]
# ## 7. Deep networks, from inside
#
# 30 layers, each a linear map of 64 to 64 and a tanh. Weights are drawn with a standard deviation of gain/8.
# **Predict** the gradient at the first layer over that at the last, as a power of ten, for a gain of 0.5.

# %% tags=["nbval-check-output"]
power = -7.9  # predict: power of ten


def by_depth(gain):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 64, bias=False), nn.Tanh()).double() for _ in range(30)]
    for layer in layers:
        nn.init.normal_(layer[0].weight, std=gain / 8)
    x = torch.randn(128, 64, dtype=torch.float64)
    return starter.watch_layers(layers, lambda: nn.Sequential(*layers)(x).square().mean())


activations, gradients = by_depth(0.5)
compare(power, torch.tensor(gradients[0] / gradients[-1]).log10().item(), "power of ten")

# %%
curves = {f"gain {gain}": by_depth(gain) for gain in (0.5, 0.9, 1.2, 3.0)}
backward = {name: gradients for name, (_, gradients) in curves.items()}
traces.plot_by_depth(backward, "gradient, root mean square") if answered(power) else None

# %%
outputs = {name: activations for name, (activations, _) in curves.items()}
traces.plot_by_depth(outputs, "output, root mean square") if answered(power) else None

# %% [markdown]
# **Explain**: with a gain of 3 the outputs look healthy. Why do the gradients explode? And with 0.5: a weight's
# gradient is the gradient at its layer times the layer's input. Which layer learns most?

# %% [markdown] tags=["answer"]
# The tanh caps every output at 1, so the size of activations says nothing is wrong. A gradient on its way back is
# multiplied by the weights at each layer, about three times, and by the tanh's derivative, which is small where it is
# saturated but not small enough on average. Thirty times a factor a little above 1 is a factor of thousands.
#
# With a gain of 0.5 one curve falls where the other rises, by as much. Their product, and so the gradient of the
# weights, is about the same in all layers: next to nothing. Look at both curves; either alone misleads.

# %% [markdown]
# ## 8. A watched model
#
# The same for Lab 02's GPT, which has residual connections and norms. **Predict** the gradient at the output of the
# first block over that at the last.

# %%
first_over_last = 1.3  # predict: times

corpus = load_corpus()
x, y = random_batch(corpus.train, step=0, seed=0, batch_size=12, block_size=64)
outputs, gradients = starter.watch_layers(model.blocks, lambda: F.cross_entropy(model(x).flatten(0, 1), y.flatten()))
compare(first_over_last, gradients[0] / gradients[-1], "times")
print("hooks left:", sum(len(block._forward_hooks) for block in model.blocks))

# %% [markdown]
# ## 9. The watcher's price
#
# A profiler writes down every call. **Predict** how many events a trace of one healthy step holds.

# %%
events_of_a_step = 3000  # predict: events

with profile(activities=[ProfilerActivity.CPU]) as profiler:
    starter.train_step(model, torch.optim.AdamW(model.parameters()), x, y)
compare(events_of_a_step, len(profiler.events()), "events")

# %% [markdown]
# ## What to keep
#
# - Fractions that add up to 1, from warm steps, with idle measured.
# - Counts (calls, reads, FLOPs) are the same on every machine; milliseconds are not.
# - A phase that looks healthy can make many times the calls: look at both.
# - MFU needs a formula, a dense peak and a time without the profiler.
# - Watch activations and gradients together, and take the hooks away.
