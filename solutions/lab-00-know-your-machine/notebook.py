# %% [markdown]
# # Lab 00: know your machine
#
# **Why is a small matrix product slow, and what limits a large one?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the [lab page](../../labs/lab-00-know-your-machine.md) beside this notebook. All of it takes
# less than a minute on two cores. Times are of one thread.

# %%
# %matplotlib inline
import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from threadpoolctl import threadpool_limits

from rankzero.curriculum import find_lab
from rankzero.learn.profiling.step_operations import gpt_operations
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("00").import_starter()  # the functions of probe_machine.py, not copies of them
torch.set_num_threads(1)
threadpool_limits(1)
cpu = torch.device("cpu")


def seconds(function):
    return starter.seconds(function, 0.05)


# %% [markdown]
# ## 1. FLOPs
#
# A matrix [768, 128] times a matrix [128, 512] is the first layer of the labs' MLP, for a batch of 12 sequences of 64
# tokens. **Predict** its FLOPs, in millions.

# %% tags=["nbval-check-output"]
mflop = 100.7  # predict: MFLOP

operations = {operation.name: operation for operation in gpt_operations(12, 64, 128, 4, 96, cpu)}
flops, moved = operations["MLP up"].cost()
compare(mflop, flops / 1e6, "MFLOP")

# %% [markdown]
# **Explain**: where does the factor of two come from?

# %% [markdown] tags=["answer"]
# Each of the 768 · 512 results is a sum of 128 products: 128 multiplications and as many additions.

# %% [markdown]
# ## 2. Bytes
#
# **Predict** how many megabytes (millions of bytes) this product moves in fp32, if each matrix moves once.

# %% tags=["nbval-check-output"]
megabytes = 2.23  # predict: MB

compare(megabytes, moved / 1e6, "MB")

# %% [markdown]
# **Explain**: which of the three matrices has most of the bytes? Would twice the rows change the intensity?

# %% [markdown] tags=["answer"]
# The result, [768, 512]. Twice the rows double the inputs and the outputs but not the weights. These are a small part
# already, so the intensity hardly changes.

# %% [markdown]
# ## 3. One row
#
# The same kind of layer with one row, [1, 128] times [128, 512], is what generating a token does. **Predict** its
# intensity in FLOP/B.

# %% tags=["nbval-check-output"]
one_row = 0.5  # predict: FLOP/B

flops, moved = operations["one row"].cost()
compare(one_row, flops / moved, "FLOP/B")

# %% [markdown]
# **Explain**: what is it in bf16, and which limit does it meet on any device?

# %% [markdown] tags=["answer"]
# About 1 in bf16, since each number has half of the bytes. All ridges are far above 1, so memory limits it, unless the
# call takes longer still.

# %% [markdown]
# ## 4. A small product
#
# **Predict** which share of the rate of a product 512 wide a product 16 wide reaches, in percent.

# %%
share = 4.0  # predict: %

rates = {}
for width in (16, 32, 64, 128, 256, 512):
    a, b = torch.randn(width, width), torch.randn(width, width)
    rates[width] = 2 * width**3 / seconds(lambda a=a, b=b: torch.mm(a, b))
compare(share, 100 * rates[16] / rates[512], "%")
if answered(share):
    plt.figure(figsize=(7, 3))
    plt.loglog(list(rates), [rate / 1e9 for rate in rates.values()], "o-")
    plt.xlabel("width")
    plt.ylabel("GFLOP/s")
    plt.show()

# %% [markdown]
# **Explain**: from 16 to 32 the work grows by a factor of eight. By which factor does the time grow?

# %% [markdown] tags=["answer"]
# By far less than eight, because most of the time is the call. The rate grows by nearly the factor of the work.

# %% [markdown]
# ## 5. The call
#
# **Predict** how many microseconds a product of two matrices 1 wide takes.

# %%
microseconds = 2.0  # predict: µs

one = torch.ones(1, 1)
call = seconds(lambda: torch.mm(one, one))
compare(microseconds, 1e6 * call, "µs")

# %% [markdown]
# **Explain**: how many such calls fit into a training step of 100 ms, and what does that say about a model with
# thousands of small operations?

# %% [markdown] tags=["answer"]
# Tens of thousands. A model with ten thousand small operations per step spends a good part of the step on calls. Larger
# operations, fusion or CUDA graphs help, and a faster device does not.

# %% [markdown]
# ## 6. A cache
#
# **Predict** how many times as fast a copy of 1 MiB is as a copy of 128 MiB, per byte.

# %%
times_faster = 5.0  # predict: times

copies = starter.measure_copies([2**power for power in range(14, 28)], cpu, 0.02)
compare(times_faster, copies[2**20] / copies[2**27], "times")
if answered(times_faster):
    plt.figure(figsize=(7, 3))
    plt.semilogx(list(copies), [rate / 1e9 for rate in copies.values()], "o-", base=2)
    plt.xlabel("bytes read and written")
    plt.ylabel("GB/s")
    plt.show()

# %% [markdown]
# **Explain**: both copies run the same instructions. Which sizes does the curve give for your caches?

# %% [markdown] tags=["answer"]
# The small copy's numbers are in a cache from the call before. The curve falls where source and target together no
# longer fit into a cache.

# %% [markdown]
# ## 7. Loops
#
# **Predict** how many times as fast NumPy multiplies two matrices 64 wide as three loops in Python do.

# %%
factor = 1000.0  # predict: times

a, b = (np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32) for seed in (0, 1))
lists = a.tolist(), b.tolist()
slow, fast = seconds(lambda: starter.loops(*lists)), seconds(lambda: a @ b)
compare(factor, slow / fast, "times")

# %% [markdown]
# **Explain**: which part of this factor has to do with tiles?

# %% [markdown] tags=["answer"]
# A small one: 64 · 64 numbers fit into a cache whatever the order. Most of the factor is that Python handles one number
# per step, and a vector unit several with one instruction.

# %% [markdown]
# ## 8. A cold call
#
# **Predict** how many times as long the first call of a convolution of a new shape takes as the second.

# %%
cold = 10.0  # predict: times

images, weights = torch.randn(4, 8, 29, 31), torch.randn(16, 8, 3, 3)
taken = []
for _ in range(2):
    start = time.perf_counter()
    torch.conv2d(images, weights)
    taken.append(time.perf_counter() - start)
compare(cold, taken[0] / taken[1], "times")

# %% [markdown]
# **Explain**: what does the first call do that the second does not?

# %% [markdown] tags=["answer"]
# The library looks for a kernel for this shape and dtype, perhaps compiles one, and keeps it. Memory is touched for the
# first time, too.

# %% [markdown]
# ## 9. Fewer bits
#
# **Predict** the error of an int8 product 256 wide, with a scale per row and per column, in percent of the product's
# norm.

# %% tags=["nbval-check-output"]
percent = 1.0  # predict: %

errors = starter.product_errors()
compare(percent, round(100 * errors["int8"], 2), "%")

# %% [markdown]
# **Explain**: bf16 has 8 bits for its digits, and int8 has 8 bits in all, but their errors differ
# by a factor of more than three. Why?

# %% [markdown] tags=["answer"]
# int8's steps are equally wide, so a number far below the largest of its row loses digits. bf16 has an exponent per
# number, and keeps the same number of digits for small and large ones.

# %% [markdown]
# ## 10. Under the roof
#
# The roof of each operation is the longest of its three times. **Predict** which share of its roof the first layer of
# the MLP reaches, in percent.

# %%
reached = 80.0  # predict: %

rows, peak = starter.measure_operations(list(operations.values()), max(rates.values()), copies, call, 0.05)
reach = {row["name"]: row for row in rows}
compare(reached, 100 * reach["MLP up"]["share"], "%")
if answered(reached):
    plt.figure(figsize=(7, 4))
    for name, row in reach.items():
        plt.loglog(row["intensity"], row["rate"] / 1e9, "o")
        plt.annotate(f"{name} ({row['limit']})", (row["intensity"], row["rate"] / 1e9), fontsize=8)
    plt.axhline(peak / 1e9, color="black")
    plt.xlabel("FLOPs per byte")
    plt.ylabel("GFLOP/s")
    plt.show()

# %% [markdown]
# **Explain**: which operation would gain from memory twice as fast, and which from a peak twice as high?

# %% [markdown] tags=["answer"]
# The operations limited by memory gain from faster memory, if their data do not stay in a cache. The large products
# gain from a higher peak. The product 32 wide gains from neither.
