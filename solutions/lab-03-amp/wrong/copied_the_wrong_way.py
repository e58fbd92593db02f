"""After the update the weights are copied into the masters. That undoes it: the old weights are back on both sides.
The masters are what is true, the weights their rounded copy."""

import torch
from torch import nn

EXERCISE = "master_weights"
FAILS = ("master_weights/step",)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = None if parameter.grad is None else parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            master.copy_(parameter)
