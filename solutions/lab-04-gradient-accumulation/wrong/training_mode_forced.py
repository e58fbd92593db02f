"""The model is put into training mode whatever it was in. Which mode is right is the caller's to know: fine-tuning
with dropout off on purpose then trains with it on."""

import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/mode",)
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def accumulate(model, x, y, k):
    model.train()
    model.zero_grad()
    total = 0.0
    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
        loss.backward()
        total += loss.item()
    return total
