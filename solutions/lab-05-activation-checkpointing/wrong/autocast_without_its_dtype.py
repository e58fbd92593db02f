"""Whether autocast was on is kept, but not what to. On the CPU it then takes bfloat16, so a forward pass in float16
gets a second run in bfloat16: other numbers, and other gradients."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = ("checkpoint/autocast",)
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint_forward(ctx, function, inputs):
    ctx.function = function
    ctx.others = [None if isinstance(one, Tensor) else (one,) for one in inputs]
    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])
    ctx.random_state = torch.get_rng_state()
    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu")}
    return function(*inputs)
