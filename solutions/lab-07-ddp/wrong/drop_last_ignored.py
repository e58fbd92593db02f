"""`drop_last` is not looked at: the order is padded in any case. Padding repeats samples, which is harmless in
training and wrong where each must count once."""

import torch

EXERCISE = "shard"
FAILS = ("shard/drop_last",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    order = list(range(length))
    if shuffle:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    each = -(-length // ranks)
    while len(order) < each * ranks:
        order += order[: each * ranks - len(order)]
    return order[rank : each * ranks : ranks]
