"""A parameter without a gradient is passed over, and its master keeps the gradient of the step before. The
optimizer applies it once more, and again in every later step. Where the parameter has None the master must have
None."""

import torch
from torch import nn

EXERCISE = "master_weights"
FAILS = ("master_weights/none",)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    for parameter, master in zip(model.parameters(), masters, strict=True):
        if parameter.grad is not None:
            master.grad = parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.copy_(master)
