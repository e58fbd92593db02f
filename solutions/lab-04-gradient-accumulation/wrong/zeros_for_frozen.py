"""Every parameter gets a gradient of zeros to add to, the frozen ones too. None and zero are not the same to an
optimizer: it skips a parameter whose gradient is None, and lets weight decay and momentum move one whose gradient
is zero. A frozen layer then shrinks."""

import torch
import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/frozen",)
READ = "handbook/gradient-mechanics.md#none-is-not-zero"


def accumulate(model, x, y, k):
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    total = 0.0
    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
        loss.backward()
        total += loss.item()
    return total
