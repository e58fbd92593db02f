"""parameter.data = master.to(...) gives each parameter new memory in every step. Whoever holds on to the old one
(DDP's buckets, a captured CUDA graph, an optimizer's flat buffer) keeps computing with old weights. copy_ writes
into the memory that is there."""

import torch
from torch import nn

EXERCISE = "master_weights"
FAILS = ("master_weights/model",)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = None if parameter.grad is None else parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.data = master.detach().clone().to(parameter.dtype)
