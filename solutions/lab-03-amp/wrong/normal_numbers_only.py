"""Everything below the smallest normal number, 6.1e-5 in fp16, is counted as lost. Below it lie the subnormal
numbers, down to 2**-24: they lose digits one by one and are not 0. Do not compare with a threshold; store the
number and look."""

import torch

EXERCISE = "share_lost"
FAILS = ("share_lost/fp16",)
READ = "handbook/precision.md#the-bottom-of-the-range"


def share_lost(gradients, scale, dtype):
    every = torch.cat([one.flatten().double() for one in gradients if one is not None])
    every = every[every != 0]
    lost = (every * scale).abs() < torch.finfo(dtype).smallest_normal
    return float(lost.double().mean()) if len(every) else 0.0
