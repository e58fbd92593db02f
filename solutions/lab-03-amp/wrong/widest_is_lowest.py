""" "widest" is treated like "lower": the fp32 arguments are rounded down to meet the others. It is the other way
round. These operations add or join tensors, they gain no speed from 16 bits, and they would lose 16 of the fp32
tensor's 24 digits."""

import torch
from torch import Tensor

EXERCISE = "cast_inputs"
FAILS = ("cast_inputs/widest",)
READ = "handbook/precision.md#which-operation-runs-in-which-format"


def cast_inputs(policy, args, low):
    def casts(value):
        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64

    if policy in ("lower", "widest"):
        target = low
    elif policy == "fp32":
        target = torch.float32
    else:
        return list(args)
    return [one.to(target) if casts(one) else one for one in args]
