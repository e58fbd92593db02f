"""Each rank shuffles with a seed of its own. Then the ranks take their K-th parts of different orders: some samples
are read by several ranks, and others by none."""

import torch

EXERCISE = "shard"
FAILS = ("shard/shuffle",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch + rank)).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    while len(order) < each * ranks:
        order += order[: each * ranks - len(order)]
    return order[rank : each * ranks : ranks]
