"""All gradients are all-reduced, and each rank uses its part of the mean. That is ZeRO-1 as it was first built, and
right. The all-gather of the weights comes on top, so that a ring sends 3 times the bytes of the model where 2 are
enough."""

import torch
import torch.distributed as dist

EXERCISE = "zero1"
FAILS = ("zero1/collectives",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    part.grad = cut(flat / dist.get_world_size(), dist.get_rank(), dist.get_world_size())  # noqa: F821
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = gather(part.detach(), torch.Size([sum(sizes)]))  # noqa: F821
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))
