# %% [markdown]
# # Lab 11: compile and export
#
# **What does `torch.compile` capture, when does it compile again, and what does an exported model need?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the [lab page](../../labs/lab-11-compile-export.md) beside this notebook. No cell needs a
# C++ compiler: graphs are captured and counted, and no code is generated.

# %%
# %matplotlib inline
import io

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.export import Dim, export

from rankzero.claims.toolkit.captured_graphs import GraphRecorder, compilations
from rankzero.curriculum import find_lab
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("11").import_starter()  # the functions of train_compiled.py, not copies of them
torch.manual_seed(0)
model = GPT(GPTConfig(vocab_size=96, block_size=64, n_layer=2, n_head=2, hidden_dim=32))


# %% [markdown]
# ## 1. Graphs
#
# The function below has two operations, a print, and two more operations. **Predict** how many graphs one call
# captures, and how many without the print.


# %%
def noisy(x):
    y = x.sin() + 1
    print(end="")
    return y * y.mean()


def quiet(x):
    y = x.sin() + 1
    return y * y.mean()


graphs_noisy = 2  # predict: graphs
graphs_quiet = 1  # predict: graphs

compare(graphs_noisy, compilations(noisy, [(torch.ones(4),)])[0], "graphs", of="with the print")
compare(graphs_quiet, compilations(quiet, [(torch.ones(4),)])[0], "graphs", of="without it")

# %% [markdown]
# **Explain**: why can the compiler not move the print behind the last operation?

# %% [markdown] tags=["answer"]
# The print might show a value that an operation has just computed, or raise an error. Python's order must hold, so the
# graph ends before the print, and the next graph begins after it.

# %% [markdown]
# ## 2. A branch, and its cure
#
# `shrink` divides by the largest value where it is above 1. **Predict** its graphs, and those of `shrink_flat`.


# %%
def shrink(x):
    largest = x.abs().max()
    if largest > 1:
        x = x / largest
    return x


def shrink_flat(x):
    return x / x.abs().max().clamp(min=1)


graphs_branch = 2  # predict: graphs
graphs_flat = 1  # predict: graphs

compare(graphs_branch, compilations(shrink, [(torch.full((4,), 2.0),)])[0], "graphs", of="shrink")
compare(graphs_flat, compilations(shrink_flat, [(torch.full((4,), 2.0),)])[0], "graphs", of="shrink_flat")

# %% [markdown]
# **Explain**: the two give the same values. Do they give the same gradients?

# %% [markdown] tags=["answer"]
# Yes where the largest value is not 1: in both, the gradient flows through the division and through the largest value
# if it is above 1, and through neither otherwise. With `.item()` no gradient would reach the largest value.

# %% [markdown]
# ## 3. Lengths
#
# Six batches of 24, 32, 40, 48, 56 and 64 tokens, one after the other. **Predict** the number of compilations by
# default, with `dynamic=False`, and with `dynamic=True`.

# %%
lengths = [24, 32, 40, 48, 56, 64]
compiled_auto = 2  # predict: compilations
compiled_no = 6  # predict: compilations
compiled_yes = 1  # predict: compilations

loss_of = starter.BatchLoss(model)
counts = {name: starter.count_compilations(loss_of, lengths, dynamic) for name, dynamic in starter.DYNAMIC.items()}
compare(compiled_auto, sum(counts["auto"]), "compilations", of="default")
compare(compiled_no, sum(counts["no"]), "compilations", of="dynamic=False")
compare(compiled_yes, sum(counts["yes"]), "compilations", of="dynamic=True")

# %% [markdown]
# The plot shows the compilations so far, after each length.

# %%
if answered(compiled_auto, compiled_no, compiled_yes):
    for name, each in counts.items():
        _ = plt.step(lengths, torch.tensor(each).cumsum(0), "o-", where="post", label=f"--dynamic {name}")
    _ = plt.xlabel("tokens per sequence, in this order")
    _ = plt.ylabel("compilations so far")
    _ = plt.legend()

# %% [markdown]
# **Explain**: why does the default compile twice, and not once?

# %% [markdown] tags=["answer"]
# At the first call nothing says that the length will change: constants give the fastest kernels. The second length
# shows that it does, and the size becomes a symbol.

# %% [markdown]
# ## 4. A batch of one
#
# After 8, 6 and 4 rows comes a single row, twice. **Predict** the compilations of these five calls.

# %%
compiled_rows = 3  # predict: compilations

rows = [(torch.zeros(count, 16, dtype=torch.int64),) for count in (8, 6, 4, 1, 1)]
each = compilations(model, rows)
compare(compiled_rows, sum(each), "compilations")
if answered(compiled_rows):
    print(each)

# %% [markdown]
# **Explain**: which call of the five compiled last, and why can the symbol not be 1?

# %% [markdown] tags=["answer"]
# The first single row. A size of 1 broadcasts, so code for a symbol would have to treat it differently; the compiler
# makes sizes 0 and 1 constants.

# %% [markdown]
# ## 5. A number that changes
#
# Twelve calls with twelve learning rates, as a Python float and as a tensor. **Predict** the compilations.


# %%
def scaled(x, rate):
    return x * rate


compiled_float = 2  # predict: compilations
compiled_tensor = 1  # predict: compilations

x, rates = torch.ones(4), [0.1 * call for call in range(1, 13)]
compare(compiled_float, sum(compilations(scaled, [(x, rate) for rate in rates])), "compilations", of="float")
compare(
    compiled_tensor, sum(compilations(scaled, [(x, torch.tensor(rate)) for rate in rates])), "compilations", of="tensor"
)

# %% [markdown]
# **Explain**: a float is handled as a length is. What is the difference to a tensor?

# %% [markdown] tags=["answer"]
# The first float is taken as a constant, the second one makes it an input. A tensor is an input from the beginning.

# %% [markdown]
# ## 6. A counter
#
# A module counts its calls in an integer attribute. **Predict** how many of 12 calls compile.


# %%
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 4), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


torch._logging.set_logs(dynamo=50)  # the warning about the limit is long
compiled_counter = 8  # predict: compilations

compare(compiled_counter, sum(compilations(Counting(), [(x,)] * 12)), "compilations")

# %% [markdown]
# **Explain**: what runs in calls 9 to 12?

# %% [markdown] tags=["answer"]
# The eager module. After 8 compilations of one function torch gives up compiling it, with one warning in its log.

# %% [markdown]
# ## 7. Blocks
#
# The GPT has 2 equal blocks. **Predict** the operations of the whole model's graph, and those of one block's graph, if
# each block is compiled by itself.

# %%
whole_size = 50  # predict: operations
block_size = 20  # predict: operations

whole, block = GraphRecorder(), None
_ = torch.compile(model, backend=whole)(rows[0][0])
block = GraphRecorder()
for part in model.blocks:
    part.compile(backend=block)
_ = model(rows[0][0])
compare(whole_size, sum(whole.sizes), "operations", of="whole model")
compare(block_size, sum(block.sizes), "operations", of="one block")
for part in model.blocks:
    part._compiled_call_impl = None  # eager again

# %% [markdown]
# **Explain**: how many graphs did the two blocks take? Look at `block.sizes`.

# %% [markdown] tags=["answer"]
# One. Both blocks run the same code with weights of the same shapes; the weights are inputs of the graph.

# %% [markdown]
# ## 8. Digits
#
# Captured graphs run the same operations in the same order. **Predict** by how much the compiled losses differ, with
# backend `aot_eager`, in nats.

# %%
apart = 0.0  # predict: nats

torch._dynamo.reset()
tokens = torch.arange(8 * 48).view(8, 48) % 96
captured = torch.compile(loss_of, backend="aot_eager")
compare(apart, abs(captured(tokens, tokens).item() - loss_of(tokens, tokens).item()), "nats")

# %% [markdown]
# **Explain**: with Inductor, the losses differ in the seventh digit. Which of its steps changes them?

# %% [markdown] tags=["answer"]
# Code generation: a fused kernel adds in another order, and keeps intermediate results in registers.

# %% [markdown]
# ## 9. Export
#
# The model is exported with a length between 2 and 64. **Predict** the size of the file, in kB: the model has about
# 30,000 parameters of 4 bytes.

# %%
file_kb = 150  # predict: kB

file = io.BytesIO()
program = export(model.eval(), (tokens[:1],), dynamic_shapes=({1: Dim("length", min=2, max=64)},))
torch.export.save(program, file)
compare(file_kb, file.tell() / 1000, "kB")

# %% [markdown]
# **Predict** how many of the lengths 2, 33, 64, 65 and 128 the loaded program refuses.

# %%
refused = 2  # predict: lengths

_ = file.seek(0)
loaded, failed = torch.export.load(file).module(), 0
for length in (2, 33, 64, 65, 128):
    try:
        loaded(torch.zeros(1, length, dtype=torch.int64))
    except (AssertionError, RuntimeError):
        failed += 1
compare(refused, failed, "lengths")

# %% [markdown]
# **Explain**: the file holds no line of the class GPT. What does it hold instead?

# %% [markdown] tags=["answer"]
# The graph, as a list of operations of torch with their inputs, the weights, and the range of each symbol. Python and
# torch are needed to run it, but not the model's code.
