"""The masters move, and the same difference is added to the 16-bit weights, instead of the masters being copied
into them. Each addition is rounded to 16 bits, so small updates are lost from the weights for good, and both drift
apart."""

import torch
from torch import nn

EXERCISE = "master_weights"
FAILS = ("master_weights/step",)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    before = [master.detach().clone() for master in masters]
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = None if parameter.grad is None else parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for parameter, master, old in zip(model.parameters(), masters, before, strict=True):
            parameter.add_((master - old).to(parameter.dtype))
