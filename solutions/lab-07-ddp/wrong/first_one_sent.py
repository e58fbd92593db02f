"""The first micro-batch is sent, and the others are not. What the first all-reduce averaged, the next micro-batches
add their own gradients to, different ones on each rank. Send after the last one."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/gradient", "accumulate/quiet")
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def accumulate(ddp, x, y, k):
    ddp.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
        with contextlib.nullcontext() if number == 1 else ddp.no_sync():
            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
            loss.backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
