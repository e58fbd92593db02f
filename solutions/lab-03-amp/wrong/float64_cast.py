"""A tensor in float64 is cast like the others. Autocast leaves it alone: whoever computes in 64 bits has asked for
that, and a gradient check in float64 would be ruined in silence."""

import torch
from torch import Tensor

EXERCISE = "cast_inputs"
FAILS = ("cast_inputs/others",)
READ = "handbook/precision.md#which-operation-runs-in-which-format"


def cast_inputs(policy, args, low):
    def casts(value):
        return isinstance(value, Tensor) and value.is_floating_point()

    if policy == "lower":
        target = low
    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
        target = torch.float32
    else:
        return list(args)
    return [one.to(target) if casts(one) else one for one in args]
