"""Nothing clears the gradients before the first part, so what somebody else's backward left behind is added in.
Accumulation wants old gradients gone once, at the start of the group, and kept from then on."""

import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/stale",)
READ = "handbook/gradient-mechanics.md#none-is-not-zero"


def accumulate(model, x, y, k):
    total = 0.0
    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
        loss.backward()
        total += loss.item()
    return total
