"""Only the first argument, the activation, is cast; the weight stays in fp32, because "under autocast the weights
stay fp32". The stored weight does. The matrix product gets a 16-bit copy of it, or there would be no 16-bit
product."""

import torch
from torch import Tensor

EXERCISE = "cast_inputs"
FAILS = ("cast_inputs/lower",)
READ = "handbook/precision.md#which-operation-runs-in-which-format"


def cast_inputs(policy, args, low):
    def casts(value):
        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64

    if policy == "lower":
        target = low
    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
        target = torch.float32
    else:
        return list(args)
    return [one.to(target) if casts(one) and (place == 0 or target != low) else one for place, one in enumerate(args)]
