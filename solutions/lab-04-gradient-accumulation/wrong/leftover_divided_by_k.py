"""The last group gets its update, but its losses are divided by k although there are fewer of them. Gradient and loss
of the last update are too small, by (micro-batches left) / k. Divide by how many the group has."""

import itertools

import torch.nn.functional as F

EXERCISE = "train_epoch"
FAILS = ("train_epoch/leftover",)
READ = "handbook/gradient-mechanics.md#a-batch-in-parts"


def train_epoch(model, optimizer, micro_batches, k):
    losses, stream = [], iter(micro_batches)
    while group := list(itertools.islice(stream, k)):
        optimizer.zero_grad()
        total = 0.0
        for x, y in group:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / k
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
