"""The gradients are summed over the ranks and not divided. AdamW divides each gradient by its own size, so that the
losses look right with one eps; the norm in the log is N times too long, and with SGD every step is."""

import torch
import torch.distributed as dist

EXERCISE = "zero1"
FAILS = ("zero1/update",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))  # noqa: F821
    part.grad *= dist.get_world_size()
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = gather(part.detach(), torch.Size([sum(sizes)]))  # noqa: F821
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))
