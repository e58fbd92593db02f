"""The losses are not divided by k, so the gradient is k times that of the batch. DDP divides by the ranks, not by the
micro-batches."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/gradient",)
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def accumulate(ddp, x, y, k):
    ddp.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
        with contextlib.nullcontext() if number == k else ddp.no_sync():
            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten())
            loss.backward()
        total += loss.detach() / k
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
