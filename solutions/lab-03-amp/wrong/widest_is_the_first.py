"""For "widest" all arguments get the dtype of the first. With a 16-bit tensor in front, an fp32 residual stream
would be rounded to 16 bits by one addition. Look at all of them first."""

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
    elif policy == "fp32" or (policy == "widest" and args[0].dtype == torch.float32):
        target = torch.float32
    else:
        return list(args)
    return [one.to(target) if casts(one) else one for one in args]
