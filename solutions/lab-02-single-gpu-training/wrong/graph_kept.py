"""eval() without no_grad(): the loss is right, but autograd keeps the activations of every batch for a backward
pass that never comes. Evaluation then needs as much memory as training."""

import torch.nn.functional as F

EXERCISE = "evaluate"
FAILS = ("evaluate/no-graph",)
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def evaluate(model, batches):
    was_training = model.training
    model.eval()
    total, tokens = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    model.train(was_training)
    return total / tokens
