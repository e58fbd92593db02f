"""backward(retain_graph=True) keeps each part's activations after they were used, until the name `loss` is bound to
the next part's: two parts are held at once. Someone wrote it to silence "backward through the graph a second time".
Each part has a graph of its own, so no graph is walked twice and there is nothing to retain."""

import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/memory",)
READ = "handbook/gradient-mechanics.md#accumulation-saves-activations-only"


def accumulate(model, x, y, k):
    model.zero_grad()
    total = 0.0
    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
        loss.backward(retain_graph=True)
        total += loss.item()
    return total
