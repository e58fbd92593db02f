"""The last sample is repeated until the ranks have equally many. The usual padding starts again at the beginning of
the order, so that no single sample counts K times in the last step."""

import torch

EXERCISE = "shard"
FAILS = ("shard/padding",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    order += order[-1:] * (each * ranks - len(order))
    return order[rank : each * ranks : ranks]
