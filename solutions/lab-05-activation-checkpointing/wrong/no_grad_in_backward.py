"""Autograd runs backward with gradients off, and the second run is left in that mode. It makes no graph, so there is
nothing to backpropagate through."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = (
    "checkpoint/gradients",
    "checkpoint/memory",
    "checkpoint/saved",
    "checkpoint/frozen",
    "checkpoint/autocast",
)
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint_backward(ctx, gradient):
    tensors = iter(ctx.saved_tensors)
    inputs = [
        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
    ]
    now = torch.get_rng_state()
    torch.set_rng_state(ctx.random_state)
    with torch.autocast("cpu", **ctx.autocast):
        output = ctx.function(*inputs)
    torch.set_rng_state(now)
    torch.autograd.backward(output, gradient)
    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
