"""A batch with a large loss is skipped. The first steps of a run have the largest losses of all, so such a run may
never begin, and hard examples are never learned."""

import torch.nn.functional as F

EXERCISE = "train_step"
FAILS = ("train_step/loss", "train_step/update")
READ = "handbook/training-loop.md#the-order-is-the-algorithm"


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    if loss.item() > 5:
        return 0.0
    loss.backward()
    optimizer.step()
    return loss.item()
