"""Each rank broadcasts its new part in turn. The weights are right, in N collectives that wait for each other; one
all-gather keeps every rank's link busy at the same time."""

import torch
import torch.distributed as dist

EXERCISE = "zero1"
FAILS = ("zero1/collectives",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))  # noqa: F821
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    parts = [part.detach().clone() for _ in range(dist.get_world_size())]
    for rank, one in enumerate(parts):
        dist.broadcast(one, src=rank)
    flat = torch.cat(parts)[: sum(sizes)]
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))
