"""The gradient is weighted by tokens, but the loss that is returned is the mean of the micro-batches' means. The curve
then shows another number than the one that is trained on, and moves when only the padding changes."""

import torch.nn.functional as F

EXERCISE = "accumulate_tokens"
FAILS = ("accumulate_tokens/loss",)
READ = "handbook/gradient-mechanics.md#unequal-micro-batches"


def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    counts = [int((y != -100).sum()) for _, y in micro_batches]
    means = []
    for (x, y), count in zip(micro_batches, counts, strict=True):
        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
        (summed / sum(counts)).backward()
        if count:
            means.append(summed.item() / count)
    return sum(means) / len(means)
