"""Nothing pulls the weights toward 0. AdamW does in each step, by lr * weight_decay, which is 0.01 unless told
otherwise; Adam does not, nor does an AdamW with weight_decay=0."""

import torch
import torch.nn.functional as F

EXERCISE = "overfit_one_batch"
FAILS = ("overfit_one_batch/losses",)
READ = "handbook/training-loop.md#what-a-step-holds-and-when"


def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    while len(losses) < max_steps and (not losses or losses[-1] >= target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
