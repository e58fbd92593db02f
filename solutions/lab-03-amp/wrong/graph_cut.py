"""The casts are made on detached tensors, so autograd does not see them: the weights get no gradient, and the
optimizer skips them without a word. A cast is an operation like any other, and its backward casts the gradient
back."""

import torch
from torch import Tensor

EXERCISE = "cast_inputs"
FAILS = ("cast_inputs/gradients",)
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
    return [one.detach().to(target) if casts(one) else one for one in args]
