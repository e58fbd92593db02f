"""The model is put into training mode first, and left there. The mode is for the caller to choose: someone who wants
to see a loss fall without the noise of dropout turned it off."""

import torch
import torch.nn.functional as F

EXERCISE = "overfit_one_batch"
FAILS = ("overfit_one_batch/mode",)
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def overfit_one_batch(model, x, y, lr, target, max_steps):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    while len(losses) < max_steps and (not losses or losses[-1] >= target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
