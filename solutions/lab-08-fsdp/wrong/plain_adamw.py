"""This is an ordinary AdamW that calls itself sharded: every rank hands it all weights, so every rank keeps state
for all of them, and the gradients are all-reduced. The weights come out right, which is why no test of numbers
notices; counting does. Not one byte is saved."""

import torch
import torch.distributed as dist
from torch import nn

EXERCISE = "zero1"
FAILS = ("zero1/part", "zero1/state", "zero1/memory", "zero1/collectives")
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def make_part(parameters):
    return nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    part.grad = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(part.grad)
    part.grad /= dist.get_world_size()
    optimizer.step()
    with torch.no_grad():
        for p, new in zip(parameters, part.split([p.numel() for p in parameters]), strict=True):
            p.copy_(new.view_as(p))
