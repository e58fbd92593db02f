"""Each rank takes one contiguous part. That divides the data too, but it is not what torch's sampler does: with K
ranks, rank r reads order[r], order[r + K], and so on. A checkpoint's position, or a comparison with one process, then
means other samples."""

import torch

EXERCISE = "shard"
FAILS = ("shard/each",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    while len(order) < each * ranks:
        order += order[: each * ranks - len(order)]
    return order[rank * each : (rank + 1) * each]
