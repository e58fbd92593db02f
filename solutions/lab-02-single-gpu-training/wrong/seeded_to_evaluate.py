"""The random generator is seeded before the evaluation, so that it gives the same number each time. With dropout off
nothing random is left in it, and the run that evaluates draws the same masks again after every evaluation."""

import torch
import torch.nn.functional as F

EXERCISE = "evaluate"
FAILS = ("evaluate/undisturbed",)
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def evaluate(model, batches):
    was_training = model.training
    model.eval()
    torch.manual_seed(1337)
    total, tokens = 0.0, 0
    with torch.no_grad():
        for x, y in batches:
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
            tokens += y.numel()
    model.train(was_training)
    return total / tokens
