"""All micro-batches run in `no_sync()`, the last one too. Nothing is ever sent: K models train on a K-th of the data
each, and drift apart. The last forward and backward belong outside."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

EXERCISE = "accumulate"
FAILS = ("accumulate/gradient", "accumulate/quiet")
READ = "handbook/distributed-data-parallel.md#how-ddp-hides-it"


def accumulate(ddp, x, y, k):
    ddp.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
        with ddp.no_sync():
            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten()) / k
            loss.backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
