"""All max_steps are taken, whatever the loss. A test that could be over in a second takes its whole budget."""

import torch
import torch.nn.functional as F

EXERCISE = "overfit_one_batch"
FAILS = ("overfit_one_batch/stops", "overfit_one_batch/below")
READ = "handbook/training-loop.md#the-order-is-the-algorithm"


def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for _ in range(max_steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
