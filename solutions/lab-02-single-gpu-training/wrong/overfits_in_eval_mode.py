"""The model is put into evaluation mode, and left there. The test then runs without the dropout that the real run
has, and whoever trains this model afterwards trains without it too."""

import torch
import torch.nn.functional as F

EXERCISE = "overfit_one_batch"
FAILS = ("overfit_one_batch/mode",)
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def overfit_one_batch(model, x, y, lr, target, max_steps):
    model.eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    while len(losses) < max_steps and (not losses or losses[-1] >= target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
