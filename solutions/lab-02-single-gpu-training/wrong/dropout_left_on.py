"""no_grad() without eval(): dropout is still dropping, so the loss is that of a model with holes in it, and differs
each time. no_grad switches off what autograd keeps, eval switches what layers compute."""

import torch
import torch.nn.functional as F

EXERCISE = "evaluate"
FAILS = ("evaluate/dropout",)
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def evaluate(model, batches):
    total, tokens = 0.0, 0
    with torch.no_grad():
        for x, y in batches:
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
            tokens += y.numel()
    return total / tokens
