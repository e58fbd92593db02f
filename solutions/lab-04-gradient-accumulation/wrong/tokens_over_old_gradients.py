"""Nothing clears the gradients before the first micro-batch, so what somebody else's backward left behind is added in,
and is divided by nothing."""

import torch.nn.functional as F

EXERCISE = "accumulate_tokens"
FAILS = ("accumulate_tokens/stale",)
READ = "handbook/gradient-mechanics.md#none-is-not-zero"


def accumulate_tokens(model, micro_batches):
    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
        (summed / scored).backward()
        total += summed.item()
    return total / scored
