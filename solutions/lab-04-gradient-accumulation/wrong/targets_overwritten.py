"""clamp_ with an underscore writes 0 into the caller's targets where -100 stood. This call is right, since it took the
mask before; in the next epoch the same tensors have no padding any more, and token 0 is trained on in its place."""

import torch.nn.functional as F

EXERCISE = "accumulate_tokens"
FAILS = ("accumulate_tokens/undisturbed",)
READ = "handbook/gradient-mechanics.md#unequal-micro-batches"


def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    masks = [(y != -100).flatten() for _, y in micro_batches]
    scored = sum(int(mask.sum()) for mask in masks)
    total = 0.0
    for (x, y), mask in zip(micro_batches, masks, strict=True):
        losses = F.cross_entropy(model(x).flatten(0, 1), y.clamp_(min=0).flatten(), reduction="none")
        summed = (losses * mask).sum()
        (summed / scored).backward()
        total += summed.item()
    return total / scored
