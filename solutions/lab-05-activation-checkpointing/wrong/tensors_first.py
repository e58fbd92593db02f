"""Inputs are sorted into tensors and others, and handed to the second run in that order. A function that takes a
number before a tensor gets them swapped."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = ("checkpoint/inputs",)
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint_backward(ctx, gradient):
    tensors = iter(ctx.saved_tensors)
    inputs = [
        next(tensors).detach().requires_grad_(asks)
        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
        if other is None
    ]
    inputs += [other[0] for other in ctx.others if other is not None]
    now = torch.get_rng_state()
    torch.set_rng_state(ctx.random_state)
    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
        output = ctx.function(*inputs)
    torch.set_rng_state(now)
    if output.requires_grad:
        torch.autograd.backward(output, gradient)
    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
