"""requires_grad is switched off on every weight, and on again at the end, frozen layers included: a fine-tuning run
then trains what it meant to leave alone. no_grad() keeps nothing and touches no weight."""

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
    model.requires_grad_(True)
    model.train(was_training)
    return total / tokens
