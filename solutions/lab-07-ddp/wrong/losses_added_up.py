"""The losses are added up over the ranks and not divided: what is logged grows with the number of ranks."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/loss",)
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def accumulate(ddp, x, y, k):
    ddp.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for number, (micro_x, micro_y) in enumerate(zip(x.chunk(k), y.chunk(k), strict=True), start=1):
        with contextlib.nullcontext() if number == k else ddp.no_sync():
            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
            loss.backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item()
