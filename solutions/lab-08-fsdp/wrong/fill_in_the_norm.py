"""The fill is squared and summed with the rest. Where it is 0 nobody notices. Where it is memory that nobody wrote,
the norm is anything, nan included, and a norm of nan clips nothing."""

import torch.distributed as dist

EXERCISE = "clip"
FAILS = ("clip/norm", "clip/direction")
READ = "handbook/sharding-and-zero.md#what-changes-in-the-loop"


def clip_part(gradient, numel, max_norm):
    mine = gradient
    squares = mine.square().sum()
    dist.all_reduce(squares)
    norm = squares.sqrt().item()
    if norm > max_norm:
        gradient.mul_(max_norm / norm)
    return norm
