"""DistributedSampler computes this, and is what this exercise builds: an order that all ranks share, made longer or
shorter, and every K-th of it. Write it out; it is five lines."""

from torch.utils.data import DistributedSampler

EXERCISE = "shard"
FAILS = ("shard/each",)
READ = "handbook/distributed-data-parallel.md#to-each-rank-its-own-data-and-its-own-dice"


def shard(length, rank, ranks, *, epoch, seed=0, shuffle=True, drop_last=False):
    sampler = DistributedSampler(range(length), ranks, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)
