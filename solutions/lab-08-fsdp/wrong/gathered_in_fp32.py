"""The fp32 parts are gathered and cast on arrival. The numbers are the same, and twice the bytes have travelled:
cast first, then send."""

import torch
import torch.distributed as dist

EXERCISE = "mixed_step"
FAILS = ("mixed_step/bytes",)
READ = "handbook/sharding-and-zero.md#what-changes-in-the-loop"


def mixed_step(part, loss_of, lr, param_dtype, reduce_dtype):
    ranks = dist.get_world_size()
    full = torch.empty(part.numel() * ranks, dtype=part.dtype)
    dist.all_gather_into_tensor(full, part)
    full = full.to(param_dtype)
    loss_of(full.requires_grad_()).backward()
    mean = torch.empty(part.numel(), dtype=reduce_dtype)
    dist.reduce_scatter_tensor(mean, full.grad.to(reduce_dtype))
    part -= lr * (mean / ranks).float()
