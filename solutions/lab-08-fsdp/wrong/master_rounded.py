"""The updated part is rounded to param_dtype. Near 1 the next number that bf16 knows is 1.0078, and most updates
are smaller than half of that: they are rounded away, and those weights stand still."""

import torch
import torch.distributed as dist

EXERCISE = "mixed_step"
FAILS = ("mixed_step/update", "mixed_step/master")
READ = "handbook/sharding-and-zero.md#what-changes-in-the-loop"


def mixed_step(part, loss_of, lr, param_dtype, reduce_dtype):
    ranks = dist.get_world_size()
    full = torch.empty(part.numel() * ranks, dtype=param_dtype)
    dist.all_gather_into_tensor(full, part.to(param_dtype))
    loss_of(full.requires_grad_()).backward()
    mean = torch.empty(part.numel(), dtype=reduce_dtype)
    dist.reduce_scatter_tensor(mean, full.grad.to(reduce_dtype))
    part.copy_((part - lr * (mean / ranks).float()).to(param_dtype))
