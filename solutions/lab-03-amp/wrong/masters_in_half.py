"""The masters are copies in the weights' own dtype. A bf16 master next to a bf16 weight stores the same number
twice: between 1 and 2 it moves in steps of 0.0078 or not at all. What the copy is for is its 16 further digits."""

import torch
from torch import nn

EXERCISE = "master_weights"
FAILS = (
    "master_weights/copies",
    "master_weights/step",
)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().clone()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = None if parameter.grad is None else parameter.grad.clone()
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.copy_(master)
