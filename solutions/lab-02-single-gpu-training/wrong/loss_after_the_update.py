"""The loss that comes back was computed again after the update. It costs a second forward pass, and it flatters: it
is the loss of the new weights on the batch they were just fitted to."""

import torch.nn.functional as F

EXERCISE = "train_step"
FAILS = ("train_step/loss",)
READ = "handbook/loss-functions.md#when-the-number-lies"


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    optimizer.step()
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
