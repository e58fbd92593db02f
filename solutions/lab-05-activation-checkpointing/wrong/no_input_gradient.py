"""Backward fills the gradients of the weights and returns None for the inputs. The layers before this one then get
none, silently: in a stack of checkpointed blocks only the last one trains."""

import torch

EXERCISE = "checkpoint"
FAILS = ("checkpoint/gradients",)
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint_backward(ctx, gradient):
    tensors = iter(ctx.saved_tensors)
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
    return (None,) * len(inputs)
