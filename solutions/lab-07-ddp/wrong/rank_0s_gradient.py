"""Rank 0's gradient is broadcast to everybody. The ranks stay equal, and all but rank 0 have computed for nothing:
the other ranks' rows are never learned from. The mean over all ranks is wanted."""

import torch.distributed as dist

EXERCISE = "data_parallel"
FAILS = ("data_parallel/gradient", "data_parallel/calls")
READ = "handbook/distributed-data-parallel.md#one-average"


def data_parallel(model):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)

    def average(parameter):
        dist.broadcast(parameter.grad, src=0)

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
