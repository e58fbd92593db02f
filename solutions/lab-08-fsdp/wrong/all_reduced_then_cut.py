"""An all-reduce gives every rank the whole sum, of which it throws away all but its part. The numbers are right. A
ring sends twice the bytes of a reduce-scatter for it, and each rank needs room for the whole once more."""

import torch.distributed as dist

EXERCISE = "flat"
FAILS = ("flat/reduces-once",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def reduce_gradient(gradient):
    total = gradient.flatten().clone()
    dist.all_reduce(total)
    return cut(total, dist.get_rank(), dist.get_world_size()) / dist.get_world_size()  # noqa: F821
