"""bf16 is written into the code, and `low` is ignored. On a GPU from before 2020, which multiplies fp16 fast and
bf16 not at all, that is the difference between a speed-up and a crawl."""

import torch
from torch import Tensor

EXERCISE = "cast_inputs"
FAILS = ("cast_inputs/lower",)
READ = "handbook/precision.md#which-operation-runs-in-which-format"


def cast_inputs(policy, args, low):
    def casts(value):
        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64

    if policy == "lower":
        target = torch.bfloat16
    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
        target = torch.float32
    else:
        return list(args)
    return [one.to(target) if casts(one) else one for one in args]
