"""Both runs are seeded with the same number, so their masks agree, and are the same in every step and every layer.
Dropout that always drops the same places trains a smaller network, and every other draw of the program repeats
too."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = (
    "checkpoint/dropout",
    "checkpoint/generator",
)
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint_forward(ctx, function, inputs):
    ctx.function = function
    ctx.others = [None if isinstance(one, Tensor) else (one,) for one in inputs]  # None: a tensor's place
    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])
    ctx.random_state = torch.get_rng_state()
    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
    torch.manual_seed(0)
    return function(*inputs)


def checkpoint_backward(ctx, gradient):
    tensors = iter(ctx.saved_tensors)
    inputs = [
        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
    ]
    now = torch.get_rng_state()
    torch.manual_seed(0)
    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
        output = ctx.function(*inputs)
    torch.set_rng_state(now)
    if output.requires_grad:
        torch.autograd.backward(output, gradient)
    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
