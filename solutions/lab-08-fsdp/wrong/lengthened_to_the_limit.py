"""Every gradient is brought to the limit, the short ones too. A run that has nearly converged then makes steps as
long as at the start."""

import torch.distributed as dist

EXERCISE = "clip"
FAILS = ("clip/limit",)
READ = "handbook/sharding-and-zero.md#what-changes-in-the-loop"


def clip_part(gradient, numel, max_norm):
    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
    squares = mine.square().sum()
    dist.all_reduce(squares)
    norm = squares.sqrt().item()
    if norm > 0:
        gradient.mul_(max_norm / norm)
    return norm
