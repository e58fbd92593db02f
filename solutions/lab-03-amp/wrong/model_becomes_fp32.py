"""parameter.data = master.data makes the model fp32 after the first step, and its memory the masters'. Every later
forward pass runs in fp32: right, slow, and twice the size. copy_ rounds into the tensor that is there."""

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
            parameter.data = master.data
