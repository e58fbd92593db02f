"""One step is taken before anything is compared, so max_steps=0 takes a step too. A loop that may have nothing to do
asks first."""

import torch
import torch.nn.functional as F

EXERCISE = "overfit_one_batch"
FAILS = ("overfit_one_batch/gives-up",)
READ = "handbook/training-loop.md#the-order-is-the-algorithm"


def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    while True:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if losses[-1] < target or len(losses) >= max_steps:
            break
    return losses
