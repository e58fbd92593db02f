"""`i % k == 0` is true for i = 0: the first update comes after one micro-batch, and from then on each comes one too
early. What follows the last of them is lost. Steps belong after micro-batch k, 2k, ...: `(i + 1) % k == 0`. This
bug shipped in public training code, together with a loss that nobody divided."""

import torch.nn.functional as F

EXERCISE = "train_epoch"
FAILS = ("train_epoch/update",)
READ = "handbook/gradient-mechanics.md#a-batch-in-parts"


def train_epoch(model, optimizer, micro_batches, k):
    losses, total = [], 0.0
    optimizer.zero_grad()
    for i, (x, y) in enumerate(micro_batches):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / k
        loss.backward()
        total += loss.item()
        if i % k == 0:
            optimizer.step()
            optimizer.zero_grad()
            losses.append(total)
            total = 0.0
    return losses
