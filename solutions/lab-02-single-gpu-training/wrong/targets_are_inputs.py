"""The loss compares the logits with x, not with y: the model learns to repeat the token it sees. Copying is easy, so
the loss looks better than it should, and the model predicts nothing."""

import torch.nn.functional as F

EXERCISE = "train_step"
FAILS = ("train_step/loss", "train_step/update")
READ = "handbook/loss-functions.md#when-the-number-lies"


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()
