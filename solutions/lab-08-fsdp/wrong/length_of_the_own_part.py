"""Each rank takes the length of its own part for the gradient's. It is too short, so too little is clipped; and
every rank has another, so that the parts are multiplied by different numbers and the gradient turns."""

import torch.distributed as dist

EXERCISE = "clip"
FAILS = ("clip/norm", "clip/direction")
READ = "handbook/sharding-and-zero.md#what-changes-in-the-loop"


def clip_part(gradient, numel, max_norm):
    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
    squares = mine.square().sum()
    norm = squares.sqrt().item()
    if norm > max_norm:
        gradient.mul_(max_norm / norm)
    return norm
