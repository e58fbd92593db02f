"""torch.random.fork_rng() surrounds the first run too. It puts the generator back when it ends, so what follows draws
the numbers that this block has drawn: layers one after another drop the same places."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = ("checkpoint/dropout", "checkpoint/generator")
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint_forward(ctx, function, inputs):
    ctx.function = function
    ctx.others = [None if isinstance(one, Tensor) else (one,) for one in inputs]
    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])
    ctx.random_state = torch.get_rng_state()
    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
    with torch.random.fork_rng(devices=[]):
        return function(*inputs)
