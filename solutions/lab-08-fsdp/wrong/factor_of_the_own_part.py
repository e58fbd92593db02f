"""The norm that comes back is the whole gradient's, and the factor is not: each rank shortens its own part to the
limit. The parts get different factors, and all together are longer than the limit."""

import torch.distributed as dist

EXERCISE = "clip"
FAILS = ("clip/direction",)
READ = "handbook/sharding-and-zero.md#what-changes-in-the-loop"


def clip_part(gradient, numel, max_norm):
    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
    squares = mine.square().sum()
    own = squares.sqrt().item()
    dist.all_reduce(squares)
    if own > max_norm:
        gradient.mul_(max_norm / own)
    return squares.sqrt().item()
