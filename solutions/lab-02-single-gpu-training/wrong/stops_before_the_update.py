"""The loop breaks between the loss and its update: the last loss is in the list, but the weights are those of the
step before. Whoever counts updates by counting losses is off by one."""

import torch
import torch.nn.functional as F

EXERCISE = "overfit_one_batch"
FAILS = ("overfit_one_batch/stops",)
READ = "handbook/training-loop.md#the-order-is-the-algorithm"


def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for _ in range(max_steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        losses.append(loss.item())
        if losses[-1] < target:
            break
        loss.backward()
        optimizer.step()
    return losses
