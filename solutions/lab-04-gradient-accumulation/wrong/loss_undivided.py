"""The losses are not divided by k, so p.grad holds the sum of the k parts' mean gradients: k times the batch's. SGD
then steps k times too far, and a clipping limit acts k times too early. AdamW divides such a factor out again, so
its loss curve will not tell you."""

import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/gradient",)
READ = "handbook/gradient-mechanics.md#a-batch-in-parts"


def accumulate(model, x, y, k):
    model.zero_grad()
    total = 0.0
    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten())
        loss.backward()
        total += loss.item()
    return total / k
