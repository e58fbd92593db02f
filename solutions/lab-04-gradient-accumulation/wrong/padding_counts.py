"""The sum is divided by all targets, those marked -100 included. They add nothing to the sum, but they make the
divisor larger: the more padding, the smaller the loss and the gradient."""

import torch.nn.functional as F

EXERCISE = "accumulate_tokens"
FAILS = ("accumulate_tokens/gradient", "accumulate_tokens/loss")
READ = "handbook/gradient-mechanics.md#unequal-micro-batches"


def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    tokens = sum(y.numel() for _, y in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
        (summed / tokens).backward()
        total += summed.item()
    return total / tokens
