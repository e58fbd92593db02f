"""Lab 03, exercises: mixed precision, written by hand.

Six exercises, in the order of the page. Each is one function (the last one, two) with a contract in its docstring.
Replace the line that raises NotImplementedError; keep the signatures. B = sequences a batch, T = tokens a sequence,
V = tokens in the vocabulary. A scale is always a power of two.

    rankzero check 03                  # all of them
    rankzero check 03 unscale          # one
    rankzero hint 03 unscale           # when stuck
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer


def share_lost(gradients: Iterable[Tensor | None], scale: float, dtype: torch.dtype) -> float:
    """The share of gradients that become 0 when they are multiplied by `scale` and then stored in `dtype`.

    `gradients` are fp32 or fp64 tensors of any shapes, or None for a parameter that has none. All numbers of all
    tensors count the same; those that are 0 before count neither as lost nor as there. `dtype` is torch.float16 or
    torch.bfloat16, `scale` a power of two, which may be larger than `dtype` can hold. The gradients stay as they are.

    Returns a Python float between 0.0 and 1.0; 0.0 where no gradient differs from 0.
    Read: handbook/precision.md, "The bottom of the range"
    """
    raise NotImplementedError("share_lost is not written yet. A hint: rankzero hint 03 share_lost")


def cast_inputs(policy: str, args: Sequence[Any], low: torch.dtype) -> list[Any]:
    """What autocast does before it runs an operation: the arguments `args`, cast as the operation's `policy` says.

    - "lower": each fp32 or 16-bit floating-point tensor becomes one of `low` (torch.bfloat16 or torch.float16)
    - "fp32": each becomes one of torch.float32
    - "widest": each becomes one of torch.float32 if any of them is; otherwise they stay as they are
    - "": every argument stays as it is

    Whatever is no floating-point tensor (integers, masks, None, numbers) stays as it is, and so does a tensor in
    float64. Gradients flow back through the casts, each to its tensor in that tensor's own dtype.

    Returns the arguments as a list, in their order. Read: handbook/precision.md, "Which operation runs in which format"
    """

    raise NotImplementedError("cast_inputs is not written yet. A hint: rankzero hint 03 cast_inputs")


def update_scale(scale: float, good_steps: int, finite: bool, growth_interval: int = 2000) -> tuple[float, int]:
    """The loss scale and the count of good steps after one more step. The count starts at 0.

    A step whose gradients are not all finite halves the scale, and the count starts anew. Otherwise the step counts as
    good. When `growth_interval` good steps have followed one another, the last of them doubles the scale, and the count
    starts anew. The scale has no limit on either side.

    Returns (scale, good_steps), a float and an int. Read: handbook/precision.md, "A scale that finds itself"
    """
    raise NotImplementedError("update_scale is not written yet. A hint: rankzero hint 03 update_scale")


def unscale(parameters: Iterable[nn.Parameter], scale: float) -> bool:
    """Divides the gradient of every parameter by `scale`, in place, and says whether all of them are finite.

    Every gradient is divided, whether or not another one has been found to be infinite. A parameter without a gradient
    is left alone. A gradient is finite if it holds no inf, no -inf and no nan, however large its numbers are.

    Returns True or False, a bool. Read: handbook/precision.md, "A scale that finds itself"
    """
    raise NotImplementedError("unscale is not written yet. A hint: rankzero hint 03 unscale")


def scaled_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    scale: float,
    max_norm: float,
    low: torch.dtype = torch.float16,
) -> tuple[float, bool]:
    """One update of `model` under autocast to `low`, with the loss scaled by `scale`; the gradient's norm is clipped.

    `model` maps token ids int64 [B, T] to logits [B, T, V]; `x` and `y` are int64 [B, T]. Forward pass and loss run
    under `torch.autocast("cpu", dtype=low)`, backward does not. The gradient whose norm is limited to `max_norm`, with
    nn.utils.clip_grad_norm_, is the true one, without the scale. If any number of it is not finite, nothing is updated:
    neither a weight nor anything the optimizer keeps. Gradients from before must not count.

    Returns (loss, updated): the mean cross-entropy in nats, without the scale, a float; and whether there was an
    update, a bool. The scale itself is the caller's to change. Read: labs/lab-03-amp.md, "Mental Model"
    """
    raise NotImplementedError("scaled_step is not written yet. A hint: rankzero hint 03 scaled_step")


def make_masters(model: nn.Module) -> list[nn.Parameter]:
    """fp32 copies of `model`'s parameters, in the order of `model.parameters()`, for an optimizer to update.

    Some parameters may be fp32 already; they get a copy of their own as well. No copy shares memory with the model.
    """
    raise NotImplementedError("make_masters is not written yet. A hint: rankzero hint 03 make_masters")


def master_step(model: nn.Module, masters: Sequence[nn.Parameter], optimizer: Optimizer) -> None:
    """One update of the masters with the model's gradients, and of the model's weights with the masters.

    `optimizer` was made for `masters`, which came from make_masters. The model's parameters hold the gradients of one
    backward pass, in their own dtype; one without a gradient, None, must stay as it is, and its master too. Afterwards
    each of the model's parameters is its master, rounded to its own dtype. They remain the same tensors: other code
    holds on to them. Read: handbook/precision.md, "Where each number wants which format"
    """
    raise NotImplementedError("master_step is not written yet. A hint: rankzero hint 03 master_step")
