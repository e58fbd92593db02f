"""Where a gradient is missing zeros are put into p.grad, which stays so. Whoever asks later whether this parameter
took part is told that it did, and an optimizer that skips missing gradients decays it."""

import torch

EXERCISE = "zero1"
FAILS = ("zero1/missing",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def zero1_step(parameters, part, optimizer):
    for p in parameters:
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    gradients = [p.grad for p in parameters]
    part.grad = reduce_gradient(torch.cat([gradient.flatten() for gradient in gradients]))  # noqa: F821
    optimizer.step()
    sizes = [p.numel() for p in parameters]
    flat = gather(part.detach(), torch.Size([sum(sizes)]))  # noqa: F821
    with torch.no_grad():
        for p, new in zip(parameters, flat.split(sizes), strict=True):
            p.copy_(new.view_as(p))
