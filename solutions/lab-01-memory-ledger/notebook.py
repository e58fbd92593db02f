# %% [markdown]
# # Lab 01: the memory ledger
#
# **Where did my memory go?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the [lab page](../../labs/lab-01-memory-ledger.md) beside this notebook. All of it takes
# under a minute on two CPU cores, and no model is ever in memory that your laptop could not hold.

# %%
# %matplotlib inline
import torch
from matplotlib import pyplot as plt

from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.predictions import answered, compare
from rankzero.ledger.ledger import Kind, human
from rankzero.ledger.measure import measure
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plot import plot_ledgers
from rankzero.ledger.predict import largest_micro_batch, predict, states_per_rank
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

adamw, fp32, mixed = OPTIMIZERS["adamw"], RECIPES["fp32"], RECIPES["mixed"]
small = GPTConfig(vocab_size=96)  # the model of Lab 02
print(small.summary())

# %% [markdown]
# ## 1. How large is a model?
#
# This GPT has 4 blocks, is 128 wide, knows 96 tokens and 64 positions. Nearly all of a block is $12\,C^2$. **Predict**
# the number of parameters of the whole model.

# %%
parameters = 807_000  # predict: parameters

measured = GPT(small).parameter_count()
compare(parameters, measured, "parameters")

# %% [markdown]
# **Explain**: what is there besides $12\,C^2$ per block?

# %% [markdown] tags=["answer"]
# $4 \cdot 12 \cdot 128^2 = 786{,}432$. The embedding adds $96 \cdot 128$, the positions $64 \cdot 128$, and each of the
# nine norms 128. The output layer is the embedding's matrix and adds nothing: 808,064.

# %% [markdown]
# ## 2. Bytes per parameter
#
# Weights, gradients and AdamW's state, all in fp32. **Predict** how many bytes that is for each parameter.

# %%
each = 16  # predict: bytes per parameter

ledger = measure(small, fp32, adamw, batch_size=12, seq_len=64)
states = ledger.total(Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)
compare(each, states / parameter_count(small), "bytes per parameter")
if answered(each):
    print(ledger)

# %% [markdown]
# The measured value is a little above a whole number. **Explain** the rest: `step counts` is the row to look at.

# %% [markdown] tags=["answer"]
# AdamW keeps its step count for each parameter tensor, as a 4-byte tensor of its own. There are 27 of them here, 108
# bytes in all: 0.0001 bytes per parameter.

# %% [markdown]
# ## 3. Half the bytes, half the memory?
#
# Now the model computes in bf16, weights and gradients take 2 bytes, and the optimizer keeps fp32 master weights.
# **Predict** the bytes per parameter of weights, gradients and optimizer state together.

# %%
each_mixed = 16  # predict: bytes per parameter

in_bf16 = measure(small, mixed, adamw, batch_size=12, seq_len=64)
states = in_bf16.total(Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER)
compare(each_mixed, states / parameter_count(small), "bytes per parameter")
for kind in (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER, Kind.ACTIVATIONS) if answered(each_mixed) else ():
    print(f"{kind:<16}{ledger.total(kind):>12,} B in fp32{in_bf16.total(kind):>12,} B mixed")

# %% [markdown]
# **Explain**: which rows were halved, and where did the saved bytes go?

# %% [markdown] tags=["answer"]
# Weights, gradients and (nearly) activations are halved. The optimizer's state grew by what the first two lost: 4 bytes
# per parameter of master weights. Mixed precision buys speed and activations, not states. (The log-sum-exp of attention
# and the token ids keep their size, so activations are a little more than half.)

# %% [markdown]
# ## 4. What follows the batch?
#
# One row of the ledger grows with the batch. **Predict** by what factor the *activations* grow from a micro-batch of 12
# to one of 48.

# %%
factor = 4  # predict: times

sizes = (12, 24, 36, 48)
ledgers = {size: measure(small, fp32, adamw, batch_size=size, seq_len=64, peaks=False) for size in sizes}
activations = [ledgers[size].total(Kind.ACTIVATIONS) / 1e6 for size in sizes]
compare(factor, activations[-1] / activations[0], "times")

if answered(factor):
    figure, axes = plt.subplots(figsize=(6, 3))
    for kind in (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER, Kind.ACTIVATIONS):
        _ = axes.plot(sizes, [ledgers[size].total(kind) / 1e6 for size in sizes], marker="o", label=kind.value)
    _ = axes.set(xlabel="sequences per micro-batch", ylabel="MB (10⁶ bytes)", ylim=(0, None))
    _ = axes.legend(frameon=False)

# %% [markdown]
# ## 5. The square
#
# Attention compares every token with every token. Without fusing, the probabilities $[B, H, T, T]$ are kept. For the
# small model at $T = 64$, one block's other activations are $16\,C$ numbers per token. **Predict** how many numbers per
# token the probabilities add.

# %%
square = 256  # predict: numbers per token and block

heads = small.n_head
compare(square, heads * 64, "numbers per token and block")

lengths = torch.logspace(6, 14, 9, base=2).long().tolist()
gpt2 = PRESETS["gpt2"]
others = 16 * gpt2.hidden_dim * 4
if answered(square):
    figure, axes = plt.subplots(figsize=(6, 3))
    _ = axes.loglog(lengths, [others * T / 1e6 for T in lengths], label="everything else")
    _ = axes.loglog(lengths, [gpt2.n_head * 4 * T * T / 1e6 for T in lengths], label="the probabilities")
    _ = axes.set(xlabel="tokens per sequence", ylabel="MB per sequence and block, fp32", title="GPT-2 small")
    _ = axes.legend(frameon=False)

# %% [markdown]
# **Explain**: at which length do the two lines cross, and what does fused attention do about it?

# %% [markdown] tags=["answer"]
# Where $H\,T = 16\,C$: for GPT-2, $T = 16 \cdot 768 / 12 = 1024$, its own context length. Fused attention makes the
# probabilities again in backward, tile by tile, and keeps one number per token and head, so the steep line is gone.

# %% [markdown]
# ## 6. The fullest moment
#
# GPT-2 small, four sequences of 1,024 tokens, fp32. States take 2.0 GB. **Predict** the peak of a step, in GB.

# %%
peak = 6.4  # predict: GB

predicted = predict(gpt2, fp32, adamw, batch_size=4, seq_len=1024)
moment, size = predicted.peak()
compare(peak, size / 1e9, "GB")
if answered(peak):
    print("when", moment)
figure = plot_ledgers(predicted)
figure.set_size_inches(7, 3.6)
figure if answered(peak) else None

# %% [markdown]
# **Explain**: gradients are not there yet at the peak. What is the brown part?

# %% [markdown] tags=["answer"]
# Temporary buffers of the loss: the gradient of the log-probabilities and the gradient of the logits, each of the size
# of the logits themselves, $B\,T\,V$ numbers. With a vocabulary of 50,257 that is 0.8 GB each.

# %% [markdown]
# ## 7. Seven billion parameters
#
# Fake tensors have a shape and no data, so a step of Llama-2-7B can be run here. **Predict** how many GB its states
# take in mixed precision.

# %%
seven_billion = 107.8  # predict: GB

llama = PRESETS["llama-2-7b"]
big = measure(llama, mixed, adamw, batch_size=1, seq_len=4096, device="fake", peaks=False)
compare(seven_billion, big.total(Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER) / 1e9, "GB")
if answered(seven_billion):
    print("activations of one sequence:", human(big.total(Kind.ACTIVATIONS)))

# %% [markdown]
# ## 8. What generation keeps
#
# **Predict** how many times *smaller* the KV cache of Llama-3-8B is than that of Llama-2-7B, for the same number of
# tokens. Both have 32 blocks and are 4,096 wide; Llama-3-8B shares each head of keys and values among four of queries.

# %%
smaller = 4  # predict: times

caches = {}
for name in ("llama-2-7b", "llama-3-8b"):
    model = measure(PRESETS[name], RECIPES["bf16"], adamw, batch_size=1, seq_len=16, device="fake", peaks=False)
    caches[name] = model.total(Kind.KV_CACHE) / 16
    if answered(smaller):
        print(f"{name}: {caches[name]:,.0f} bytes per token")
compare(smaller, caches["llama-2-7b"] / caches["llama-3-8b"], "times")

# %% [markdown]
# ## 9. Sharding
#
# 7.5 billion parameters in mixed precision take 120 GB of states. ZeRO-1 shards the optimizer's part over 64 ranks.
# **Predict** what is left on each rank, in GB.

# %%
left = 31.4  # predict: GB

compare(left, states_per_rank(7.5e9, mixed, adamw, zero=1, ranks=64) / 1e9, "GB")

ranks = [2**n for n in range(11)]
if answered(left):
    figure, axes = plt.subplots(figsize=(6, 3))
    for stage in range(4):
        each_rank = [states_per_rank(7.5e9, mixed, adamw, zero=stage, ranks=n) / 1e9 for n in ranks]
        _ = axes.loglog(ranks, each_rank, marker=".", label=f"ZeRO-{stage}" if stage else "replicated")
    _ = axes.set(xlabel="ranks", ylabel="GB per rank")
    _ = axes.legend(frameon=False)

# %% [markdown]
# **Explain**: ZeRO-1 and ZeRO-2 flatten out and ZeRO-3 does not. What is at the bottom of each?

# %% [markdown] tags=["answer"]
# The bytes left unsharded: 4 bytes per parameter for ZeRO-1 (weights and gradients in bf16: 30 GB), 2 for ZeRO-2
# (15 GB), nothing for ZeRO-3. "Saves 4 times" and "saves 8 times" are those limits, 120/30 and 120/15.

# %% [markdown]
# ## 10. What fits?
#
# A card with 24 GB. **Predict** the largest micro-batch of GPT-2 small, 1,024 tokens each, in fp32.

# %%
fits = 18  # predict: sequences

plain = largest_micro_batch(gpt2, fp32, adamw, seq_len=1024, budget=24 * 10**9)
compare(fits, plain, "sequences")
layout = Layout(checkpointing="block")
checkpointed = largest_micro_batch(gpt2, fp32, adamw, seq_len=1024, budget=24 * 10**9, layout=layout)
if answered(fits):
    print("with checkpointing:", checkpointed)

# %% [markdown]
# **Explain**: checkpointing removes most of a block's activations. Why does the micro-batch not grow by as much?

# %% [markdown] tags=["answer"]
# Because the logits stay: the log-probabilities and the loss's two buffers are $3\,B\,T\,V$ numbers, 0.6 GB per
# sequence, and no block's recomputation touches them. A loss that works on slices of the tokens would.
