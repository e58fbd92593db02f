"""parameter.detach().float() makes a copy of a 16-bit weight, but of an fp32 weight, such as a norm kept in fp32,
it returns the very same memory. The optimizer then updates the model directly, and what looked like a copy is none.
clone() always copies."""

import torch
from torch import nn

EXERCISE = "master_weights"
FAILS = (
    "master_weights/copies",
    "master_weights/model",
)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = None if parameter.grad is None else parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.copy_(master)
