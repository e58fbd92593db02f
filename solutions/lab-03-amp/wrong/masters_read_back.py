"""Before each step the masters are read back from the 16-bit weights, "so that they agree". That throws away what
the masters had saved up: updates below the weight's precision are lost again, every step. After the start nothing
ever flows from weights to masters."""

import torch
from torch import nn

EXERCISE = "master_weights"
FAILS = (
    "master_weights/small",
    "master_weights/none",
)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.data.copy_(parameter.data)
        master.grad = None if parameter.grad is None else parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.copy_(master)
