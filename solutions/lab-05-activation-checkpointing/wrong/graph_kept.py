"""Forward runs with gradients on and its graph is kept for backward. Gradients are right, nothing runs twice, and
every activation is still there: the memory that was to be saved is not."""

import torch

EXERCISE = "checkpoint"
FAILS = ("checkpoint/autocast", "checkpoint/frozen", "checkpoint/memory", "checkpoint/saved")
READ = "handbook/memory.md#recompute-what-and-when"


def checkpoint_forward(ctx, function, inputs):
    with torch.enable_grad():
        ctx.inputs = [
            one.detach().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one for one in inputs
        ]
        ctx.output = function(*ctx.inputs)
    return ctx.output.detach()


def checkpoint_backward(ctx, gradient):
    if ctx.output.requires_grad:
        torch.autograd.backward(ctx.output, gradient)
    return tuple(one.grad if isinstance(one, torch.Tensor) else None for one in ctx.inputs)
