"""Each rank fills up its own share with its own first sample. The padding belongs to the order, before it is cut up:
it repeats the order's first samples, whichever rank they fall to."""

import torch

EXERCISE = "shard"
FAILS = ("shard/padding",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    mine = order[rank : each * ranks : ranks]
    while len(mine) < each:
        mine += (mine or order)[: each - len(mine)]
    return mine
