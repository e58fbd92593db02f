"""requires_grad is switched off on the weights, so that nothing is kept, and never on again. Training stops at the next
backward(), far from here. no_grad() does the same for a block of code and puts back what it found."""

import torch.nn.functional as F

EXERCISE = "evaluate"
FAILS = ("evaluate/grad-mode",)
READ = "handbook/backpropagation.md#who-holds-the-graph"


def evaluate(model, batches):
    was_training = model.training
    model.eval()
    model.requires_grad_(False)
    total, tokens = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    model.train(was_training)
    return total / tokens
