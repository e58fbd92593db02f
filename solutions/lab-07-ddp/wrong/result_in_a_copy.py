"""The sum is made in a copy and returned. `tensor` itself must change: its owner holds no other name for the result,
and gradients are averaged where they are."""

import torch
import torch.distributed as dist

EXERCISE = "ring_all_reduce"
FAILS = ("ring_all_reduce/sum",)
READ = "handbook/distributed-data-parallel.md#what-the-average-costs"


def ring_all_reduce(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    result = tensor.clone()
    chunks = result.view(-1).tensor_split(ranks)
    for step in range(2 * (ranks - 1)):
        mine, theirs = chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks]
        received = torch.empty_like(theirs)
        sending = dist.isend(mine, (rank + 1) % ranks)
        dist.recv(received, (rank - 1) % ranks)
        sending.wait()
        if step < ranks - 1:
            theirs.add_(received)
        else:
            theirs.copy_(received)
    return result
