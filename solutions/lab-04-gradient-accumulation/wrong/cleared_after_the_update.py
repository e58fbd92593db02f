"""The gradients are cleared after each update, not before each group. That is the same as long as nobody else calls
backward: what a gradient monitor or an epoch that was broken off has left goes into the first update."""

import itertools

import torch.nn.functional as F

EXERCISE = "train_epoch"
FAILS = ("train_epoch/stale",)
READ = "handbook/gradient-mechanics.md#none-is-not-zero"


def train_epoch(model, optimizer, micro_batches, k):
    losses, stream = [], iter(micro_batches)
    while group := list(itertools.islice(stream, k)):
        total = 0.0
        for x, y in group:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses
