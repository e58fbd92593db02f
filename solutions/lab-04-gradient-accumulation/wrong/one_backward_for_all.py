"""The parts' losses are added up and backward runs once, at the end. The gradient is right, but every part's
activations wait for that one backward: this holds as much memory as the whole batch, and takes longer. Run backward
on each part, while its activations are the only ones."""

import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/memory",)
READ = "handbook/gradient-mechanics.md#accumulation-saves-activations-only"


def accumulate(model, x, y, k):
    model.zero_grad()
    losses = [
        F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten())
        for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True)
    ]
    loss = sum(losses) / k
    loss.backward()
    return loss.item()
