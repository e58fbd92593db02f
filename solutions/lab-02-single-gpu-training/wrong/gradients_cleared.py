"""The gradients are cleared. Evaluation makes none, so there is nothing to clear; a run that accumulates over several
batches loses those it had so far."""

import torch
import torch.nn.functional as F

EXERCISE = "evaluate"
FAILS = ("evaluate/undisturbed",)
READ = "handbook/backpropagation.md#pgrad-adds-it-does-not-replace"


def evaluate(model, batches):
    was_training = model.training
    model.eval()
    model.zero_grad()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for x, y in batches:
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
            tokens += y.numel()
    model.train(was_training)
    return total / tokens
