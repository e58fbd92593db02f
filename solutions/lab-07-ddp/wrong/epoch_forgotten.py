"""The epoch is not in the seed: every epoch has the order of the first. That is what happens to torch's
DistributedSampler when nobody calls `set_epoch`. The run looks healthy, and the same samples meet in the same batches
each time."""

import torch

EXERCISE = "shard"
FAILS = ("shard/shuffle",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed)).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    while len(order) < each * ranks:
        order += order[: each * ranks - len(order)]
    return order[rank : each * ranks : ranks]
