"""A loss that equals the target ends the loop. The contract says below: with >= and > mixed up, the loop stops one
step early whenever the two are equal."""

import torch
import torch.nn.functional as F

EXERCISE = "overfit_one_batch"
FAILS = ("overfit_one_batch/below",)
READ = "handbook/training-loop.md#the-order-is-the-algorithm"


def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    while len(losses) < max_steps and (not losses or losses[-1] > target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
