"""Neither switch is thrown. Without eval() dropout is still dropping, so the loss is that of a model with holes in
it; without no_grad() autograd keeps the activations of every batch for a backward pass that never comes."""

import torch.nn.functional as F

EXERCISE = "evaluate"
FAILS = ("evaluate/dropout", "evaluate/no-graph")
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def evaluate(model, batches):
    total, tokens = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    return total / tokens
