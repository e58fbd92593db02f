"""There are 2(K-1) steps, and this stops one before. K - 1 steps finish one chunk on each rank; it takes K - 1 more
until everyone has all of them, so on every rank one chunk is still an unfinished sum."""

import torch
import torch.distributed as dist

EXERCISE = "ring_all_reduce"
FAILS = ("ring_all_reduce/sum", "ring_all_reduce/bytes")
READ = "handbook/distributed-data-parallel.md#what-the-average-costs"


def ring_all_reduce(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
    for step in range(2 * (ranks - 1) - 1):
        mine, theirs = chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks]
        received = torch.empty_like(theirs)
        sending = dist.isend(mine, (rank + 1) % ranks)
        dist.recv(received, (rank - 1) % ranks)
        sending.wait()
        if step < ranks - 1:
            theirs.add_(received)
        else:
            theirs.copy_(received)
