"""The marker -100 is replaced by token 0, so that cross_entropy takes it, and scored along. The model is trained to
write token 0 wherever there was padding or a prompt."""

import torch.nn.functional as F

EXERCISE = "accumulate_tokens"
FAILS = ("accumulate_tokens/gradient", "accumulate_tokens/loss")
READ = "handbook/gradient-mechanics.md#unequal-micro-batches"


def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    tokens = sum(y.numel() for _, y in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        summed = F.cross_entropy(model(x).flatten(0, 1), y.clamp(min=0).flatten(), reduction="sum")
        (summed / tokens).backward()
        total += summed.item()
    return total / tokens
