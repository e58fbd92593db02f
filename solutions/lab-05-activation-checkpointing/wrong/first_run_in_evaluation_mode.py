"""The first run is taken for inference, since it keeps nothing, and switched to evaluation mode. Its loss is that of
the model without dropout; the gradient is that of the model with it."""

import torch
from torch import Tensor

EXERCISE = "checkpoint"
FAILS = (
    "checkpoint/dropout",
    "checkpoint/generator",
)
READ = "handbook/forward-pass.md#two-switches-that-look-like-one"


def checkpoint_forward(ctx, function, inputs):
    ctx.function = function
    ctx.others = [None if isinstance(one, Tensor) else (one,) for one in inputs]  # None: a tensor's place
    ctx.save_for_backward(*[one for one in inputs if isinstance(one, Tensor)])
    ctx.random_state = torch.get_rng_state()
    ctx.autocast = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
    training = getattr(function, "training", None)
    if training:
        function.eval()
    output = function(*inputs)
    if training:
        function.train()
    return output
