"""Zeros from before are not counted as lost, but they are counted as there: the share is divided by all numbers.
The more rows of the embedding the batch leaves out, the better the format seems to be."""

EXERCISE = "share_lost"
FAILS = ("share_lost/zeros",)
READ = "handbook/precision.md#the-bottom-of-the-range"


def share_lost(gradients, scale, dtype):
    lost, there = 0, 0
    for gradient in gradients:
        if gradient is not None:
            lost += int((((gradient * scale).to(dtype) == 0) & (gradient != 0)).sum())
            there += gradient.numel()
    return lost / there if there else 0.0
