"""When no input asks for a gradient, the function is called plainly. The gradients are right, since its weights ask,
and so everything inside is kept: behind a frozen embedding the first block, or the whole model, saves nothing."""

import torch
from exercises import Recompute
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = ("checkpoint/frozen",)
READ = "labs/lab-05-activation-checkpointing.md#break-it"


def checkpoint(function, *inputs):
    if not any(isinstance(one, Tensor) and one.requires_grad for one in inputs):
        return function(*inputs)
    return Recompute.apply(function, torch.empty(0, requires_grad=True), *inputs)
