"""The gradients reach the masters and the masters reach the model, but nobody calls optimizer.step(): nothing
moves."""

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
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.copy_(master)
