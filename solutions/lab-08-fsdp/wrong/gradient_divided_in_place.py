"""The caller's gradient is divided where it lies. The part that comes back is right, but p.grad is N times too
small afterwards: a norm in the log, or a second use of it, is wrong."""

import torch.distributed as dist

EXERCISE = "flat"
FAILS = ("flat/mean",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def reduce_gradient(gradient):
    ranks = dist.get_world_size()
    part = gradient.new_empty(-(-gradient.numel() // ranks))
    gradient /= ranks
    padded = gradient.new_zeros(part.numel() * ranks)
    padded[: gradient.numel()] = gradient.flatten()
    dist.reduce_scatter_tensor(part, padded)
    return part
