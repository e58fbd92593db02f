"""The gradient is reduced in the precision it was computed in. bf16 keeps 8 bits: at each addition of a reduction
digits are lost, more with every rank. Casting before the reduction costs bytes and keeps them."""

import torch
import torch.distributed as dist

EXERCISE = "mixed_step"
FAILS = ("mixed_step/update", "mixed_step/master", "mixed_step/bytes")
READ = "handbook/sharding-and-zero.md#what-changes-in-the-loop"


def mixed_step(part, loss_of, lr, param_dtype, reduce_dtype):
    ranks = dist.get_world_size()
    full = torch.empty(part.numel() * ranks, dtype=param_dtype)
    dist.all_gather_into_tensor(full, part.to(param_dtype))
    loss_of(full.requires_grad_()).backward()
    mean = torch.empty(part.numel(), dtype=param_dtype)
    dist.reduce_scatter_tensor(mean, full.grad)
    part -= lr * (mean / ranks).float()
