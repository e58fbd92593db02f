"""p.data is pointed at the gathered tensor. The numbers are right, but the parameters have moved: views of the old
memory, as tied weights or an optimizer's flat buffer have, keep the old numbers, and the gathered tensor stays
alive."""

import torch

EXERCISE = "zero1"
FAILS = ("zero1/update",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def zero1_step(parameters, part, optimizer):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))  # noqa: F821
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = gather(part.detach(), torch.Size([sum(sizes)]))  # noqa: F821
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.data = new.view_as(p)
