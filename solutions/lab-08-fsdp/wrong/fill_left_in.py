"""The fill is gathered with the parts and left in the whole, which is then longer than the tensor was, and has one
dimension. Only the first shape.numel() numbers belong to it."""

import torch.distributed as dist

EXERCISE = "flat"
FAILS = ("flat/gather",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def gather(part, shape):
    whole = part.new_empty(part.numel() * dist.get_world_size())
    dist.all_gather_into_tensor(whole, part)
    return whole
