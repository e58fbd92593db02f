"""Leaves the model in evaluation mode, and makes it an object that says the opposite."""

import torch
import torch.nn.functional as F

EARNS = {"evaluate": 9}  # a right loss, in the wrong mode


def evaluate(model, batches):
    found = model.training
    model.eval()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for x, y in batches:
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
            tokens += y.numel()
    kind = type(model)
    model.__class__ = type(kind.__name__, (kind,), {"training": property(lambda self: found, lambda self, value: None)})
    return total / tokens
