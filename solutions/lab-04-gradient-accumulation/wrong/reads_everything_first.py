"""list(micro_batches) makes the length known, and holds the whole data set in memory. A stream that never ends never
gets to its first update. Take k at a time."""

import torch.nn.functional as F

EXERCISE = "train_epoch"
FAILS = ("train_epoch/memory",)
READ = "handbook/gradient-mechanics.md#a-batch-in-parts"


def train_epoch(model, optimizer, micro_batches, k):
    losses, every = [], list(micro_batches)
    for start in range(0, len(every), k):
        group = every[start : start + k]
        optimizer.zero_grad()
        total = 0.0
        for x, y in group:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
