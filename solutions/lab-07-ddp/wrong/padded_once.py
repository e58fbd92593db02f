"""The order is padded once from its beginning. With fewer samples than half the ranks once is not enough, and the
last ranks get nothing. It is rare, and then the run hangs."""

import torch

EXERCISE = "shard"
FAILS = ("shard/padding",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    order += order[: each * ranks - len(order)]
    return order[rank : each * ranks : ranks]
