"""Each micro-batch's mean is weighted by its number of sequences. That is right where every sequence has the same
number of scored tokens. Here lengths and padding differ, so tokens in short or much-padded sequences count more."""

import torch.nn.functional as F

EXERCISE = "accumulate_tokens"
FAILS = ("accumulate_tokens/gradient", "accumulate_tokens/loss")
READ = "handbook/gradient-mechanics.md#unequal-micro-batches"


def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    sequences = sum(len(x) for x, _ in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) * len(x) / sequences
        loss.backward()
        total += loss.item()
    return total
