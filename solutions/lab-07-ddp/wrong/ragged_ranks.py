"""Nothing is padded: some ranks get one sample more than others. In the last step they wait in an all-reduce for
ranks that have left the loop, until the time limit."""

import torch

EXERCISE = "shard"
FAILS = ("shard/padding",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    return order[rank : each * ranks : ranks]
