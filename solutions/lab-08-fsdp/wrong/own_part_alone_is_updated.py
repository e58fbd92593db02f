"""Each rank writes its own part back and nobody gathers. From the first update on every rank has another model, in
which only its own part has been trained."""

import torch
import torch.distributed as dist

EXERCISE = "zero1"
FAILS = ("zero1/update",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))  # noqa: F821
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = torch.cat([p.detach().flatten() for p in parameters])
    start = dist.get_rank() * part.numel()
    flat[start : start + part.numel()] = part.detach()[: max(0, len(flat) - start)]
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))
