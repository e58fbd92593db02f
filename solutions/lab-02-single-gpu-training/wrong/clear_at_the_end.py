"""The gradients are cleared after the update, not before the backward pass. That works as long as nobody else calls
backward: a gradient monitor, a failed step or a resumed run leaves gradients behind, and the next update follows
them too. Clear right before you make new ones."""

import torch.nn.functional as F

EXERCISE = "train_step"
FAILS = ("train_step/stale",)
READ = "handbook/backpropagation.md#pgrad-adds-it-does-not-replace"


def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
