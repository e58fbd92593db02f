"""Every tensor is made to ask for a gradient in the second run. Indices and masks are no floating-point numbers and
cannot, so the first block that takes one raises an error."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = ("checkpoint/inputs",)
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint_backward(ctx, gradient):
    tensors = iter(ctx.saved_tensors)
    inputs = [next(tensors).detach().requires_grad_() if other is None else other[0] for other in ctx.others]
    now = torch.get_rng_state()
    torch.set_rng_state(ctx.random_state)
    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
        output = ctx.function(*inputs)
    torch.set_rng_state(now)
    if output.requires_grad:
        torch.autograd.backward(output, gradient)
    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
