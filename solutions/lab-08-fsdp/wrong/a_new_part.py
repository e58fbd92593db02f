"""`part = part - ...` makes a new tensor and gives it the name inside the function. The caller's part, and with it
the model, never changes."""

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
    part = part - lr * (mean / ranks).float()
