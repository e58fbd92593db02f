"""A parameter without a gradient gives its master a gradient of zeros. Zero is not nothing: AdamW's averages still
push, and weight decay still shrinks the weight. With None it skips the master."""

import torch
from torch import nn

EXERCISE = "master_weights"
FAILS = ("master_weights/none",)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = torch.zeros_like(master) if parameter.grad is None else parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.copy_(master)
