"""Gradients are switched off by hand, and on again at the end, whatever they were before. Somebody who evaluates
inside a no_grad() block builds graphs from there on. Use no_grad() as a context: it puts back what it found."""

import torch
import torch.nn.functional as F

EXERCISE = "evaluate"
FAILS = ("evaluate/grad-mode",)
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def evaluate(model, batches):
    was_training = model.training
    model.eval()
    torch.set_grad_enabled(False)
    total, tokens = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    torch.set_grad_enabled(True)
    model.train(was_training)
    return total / tokens
