"""The reduction is in fp32 whatever was asked for. That is the careful choice, and somebody has chosen otherwise:
bf16 halves the bytes of the gradients."""

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
    mean = torch.empty(part.numel(), dtype=torch.float32)
    dist.reduce_scatter_tensor(mean, full.grad.float())
    part -= lr * (mean / ranks).float()
