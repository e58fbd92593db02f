"""A new AdamW is made in every step. Its averages start empty each time, so every step moves each weight by about
the full rate, and the run never settles."""

import torch
import torch.nn.functional as F

EXERCISE = "overfit_one_batch"
FAILS = ("overfit_one_batch/losses",)
READ = "handbook/training-loop.md#what-a-step-holds-and-when"


def overfit_one_batch(model, x, y, lr, target, max_steps):
    losses = []
    while len(losses) < max_steps and (not losses or losses[-1] >= target):
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
