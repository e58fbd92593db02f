"""A reduce-scatter sums. Each rank's loss is a mean over its own share of the batch, so the batch's gradient is the
mean over ranks, and this one is N times too long. AdamW hides that; clipping and SGD do not."""

import torch.distributed as dist

EXERCISE = "flat"
FAILS = ("flat/mean",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def reduce_gradient(gradient):
    ranks = dist.get_world_size()
    part = gradient.new_empty(-(-gradient.numel() // ranks))
    padded = gradient.new_zeros(part.numel() * ranks)
    padded[: gradient.numel()] = gradient.flatten()
    dist.reduce_scatter_tensor(part, padded)
    return part
