"""The inputs become attributes of ctx and never pass through save_for_backward. They live as long as the loss does,
hooks that offload or count saved tensors do not see them, and an input that is overwritten in place gives wrong
gradients without an error."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = ("checkpoint/saved",)
READ = "handbook/backpropagation.md#who-holds-the-graph"


def checkpoint_forward(ctx, function, inputs):
    ctx.function = function
    ctx.others = [None if isinstance(one, Tensor) else (one,) for one in inputs]  # None: a tensor's place
    ctx.tensors = [one for one in inputs if isinstance(one, Tensor)]
    ctx.random_state = torch.get_rng_state()
    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
    return function(*inputs)


def checkpoint_backward(ctx, gradient):
    tensors = iter(ctx.tensors)
    inputs = [
        next(tensors).detach().requires_grad_(asks) if other is None else other[0]
        for other, asks in zip(ctx.others, ctx.needs_input_grad[2:], strict=True)
    ]
    now = torch.get_rng_state()
    torch.set_rng_state(ctx.random_state)
    with torch.enable_grad(), torch.autocast("cpu", **ctx.autocast):
        output = ctx.function(*inputs)
    torch.set_rng_state(now)
    if output.requires_grad:
        torch.autograd.backward(output, gradient)
    return tuple(one.grad if isinstance(one, Tensor) else None for one in inputs)
