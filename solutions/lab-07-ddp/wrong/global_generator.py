"""torch's global generator is seeded. The order is right, and everything else that draws, dropout above all, now
begins again from the same state in every epoch. Give the shuffle a generator of its own."""

import torch

EXERCISE = "shard"
FAILS = ("shard/shuffle",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        torch.manual_seed(seed + epoch)
        order = torch.randperm(length).tolist()
    each = length // ranks if drop_last else -(-length // ranks)
    while len(order) < each * ranks:
        order += order[: each * ranks - len(order)]
    return order[rank : each * ranks : ranks]
