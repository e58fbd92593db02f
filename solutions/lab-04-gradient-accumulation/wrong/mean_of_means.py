"""Each micro-batch's loss is its own mean, divided by how many micro-batches there are. A token among few others then
counts more than one among many: this is the mean of means, and another gradient. Trainers shipped it for years,
because with equal lengths it is right."""

import torch.nn.functional as F

EXERCISE = "accumulate_tokens"
FAILS = ("accumulate_tokens/gradient", "accumulate_tokens/loss")
READ = "handbook/gradient-mechanics.md#unequal-micro-batches"


def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    total = 0.0
    for x, y in micro_batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(micro_batches)
        loss.backward()
        total += loss.item()
    return total
