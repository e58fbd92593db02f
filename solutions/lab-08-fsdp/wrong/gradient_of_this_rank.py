"""The update follows this rank's own gradient, of which it takes its part. Nothing is averaged: N - 1 of N
sequences have been computed for nothing."""

import torch
import torch.distributed as dist

EXERCISE = "zero1"
FAILS = ("zero1/update",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    part.grad = cut(flat, dist.get_rank(), dist.get_world_size())  # noqa: F821
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = gather(part.detach(), torch.Size([sum(sizes)]))  # noqa: F821
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))
