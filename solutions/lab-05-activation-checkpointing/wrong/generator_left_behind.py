"""The generator is put back for the second run and then stays there. Whatever draws next repeats numbers that were
used before: the masks of later layers in the same step, or of the next step, are no longer independent."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = ("checkpoint/dropout", "checkpoint/generator")
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint_backward(ctx, gradient):
    tensors = iter(ctx.saved_tensors)
    inputs = [
        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
    ]
    torch.set_rng_state(ctx.random_state)
    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
        output = ctx.function(*inputs)
    if output.requires_grad:
        torch.autograd.backward(output, gradient)
    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
