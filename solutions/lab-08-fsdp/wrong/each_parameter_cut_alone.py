"""Each parameter is cut by itself, and its parts are laid end to end. That is what fully_shard does, but then
gradients must be laid out in the same way, and here they are not: numbers meet the gradients of others. It also
fills once a parameter, not once in all."""

import torch
import torch.distributed as dist
from torch import nn

EXERCISE = "zero1"
FAILS = ("zero1/part", "zero1/state", "zero1/update")
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def make_part(parameters):
    return nn.Parameter(torch.cat([cut(p, dist.get_rank(), dist.get_world_size()) for p in parameters]))  # noqa: F821


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    mine = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))  # noqa: F821
    part.grad = torch.cat([mine, mine.new_zeros(len(part) - len(mine))])
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = gather(part.detach()[: len(mine)], torch.Size([sum(sizes)]))  # noqa: F821
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))
