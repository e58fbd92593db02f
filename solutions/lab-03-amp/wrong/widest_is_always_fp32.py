""" "widest" is taken for fp32. If all arguments are 16-bit they stay 16-bit: nothing would become more exact, and
twice the memory would be kept for backward."""

import torch
from torch import Tensor

EXERCISE = "cast_inputs"
FAILS = ("cast_inputs/widest",)
READ = "handbook/precision.md#which-operation-runs-in-which-format"


def cast_inputs(policy, args, low):
    def casts(value):
        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64

    if policy == "lower":
        target = low
    elif policy == "fp32" or (policy == "widest" and True):
        target = torch.float32
    else:
        return list(args)
    return [one.to(target) if casts(one) else one for one in args]
