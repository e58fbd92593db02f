"""The loss is summed over the tokens instead of averaged. The gradient is then B*T times as long and grows with the
batch: the learning rate means something else for every batch size. (AdamW would hide it; SGD does not.)"""

import torch.nn.functional as F

EXERCISE = "train_step"
FAILS = ("train_step/loss", "train_step/update")
READ = "handbook/loss-functions.md#mean-over-tokens-not-over-batches"


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
    loss.backward()
    optimizer.step()
    return loss.item()
