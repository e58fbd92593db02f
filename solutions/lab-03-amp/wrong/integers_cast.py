"""Every tensor is cast, token ids and masks included. An embedding or a loss wants integers and refuses; worse,
bf16 cannot tell token 257 from token 256. Only floating-point tensors have a format to choose."""

import torch
from torch import Tensor

EXERCISE = "cast_inputs"
FAILS = (
    "cast_inputs/others",
    "cast_inputs/gpt",
)
READ = "handbook/precision.md#which-operation-runs-in-which-format"


def cast_inputs(policy, args, low):
    def casts(value):
        return isinstance(value, Tensor)

    if policy == "lower":
        target = low
    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
        target = torch.float32
    else:
        return list(args)
    return [one.to(target) if casts(one) else one for one in args]
