"""The second run keeps nothing either, so that it needs a third. Each level of nesting adds a run of everything
inside it: memory falls no further, since the input is all that is kept already, and the time is paid twice."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = ("checkpoint/autocast", "checkpoint/frozen", "checkpoint/memory")
READ = "handbook/memory.md#recompute-what-and-when"


def checkpoint_backward(ctx, gradient):
    tensors = iter(ctx.saved_tensors)
    inputs = [
        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
    ]
    now = torch.get_rng_state()
    torch.set_rng_state(ctx.random_state)
    with torch.no_grad(), torch.autocast("cpu", **ctx.autocast):
        ctx.function(*inputs)
    torch.set_rng_state(ctx.random_state)
    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
        output = ctx.function(*inputs)
    torch.set_rng_state(now)
    if output.requires_grad:
        torch.autograd.backward(output, gradient)
    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
