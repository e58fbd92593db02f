"""Lab 03, exercises: mixed precision, written by hand.

Six exercises, in the order of the page. Each is one function (the last one, two) with a contract in its docstring.
Replace the line that raises NotImplementedError; keep the signatures. B = sequences per batch, T = tokens per sequence,
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

    `gradients` are fp32 or fp64 tensors of any shapes, or None for a parameter that has none; they may come from a
    generator. All numbers of all tensors count the same, whatever tensor they are in. Numbers that are 0 before count
    neither as lost nor in the total. Each gradient is multiplied in its own dtype. `dtype` is torch.float16 or
    torch.bfloat16, `scale` a power of two, which may be larger than `dtype` can hold. The gradients stay as they are.

    Returns a Python float between 0.0 and 1.0; 0.0 where no gradient differs from 0.
    Read: handbook/precision.md, "The bottom of the range"
    """
    raise NotImplementedError("share_lost is not written yet. A hint: rankzero hint 03 share_lost")


def cast_inputs(policy: str, args: Sequence[Any], low: torch.dtype) -> list[Any]:
    """The arguments `args` of an operation, cast as autocast casts them before an operation of this `policy`.

    - "lower": each fp32, bf16 or fp16 tensor becomes one of `low` (torch.bfloat16 or torch.float16)
    - "fp32": each becomes one of torch.float32
    - "widest": each becomes one of torch.float32 if any of them is; otherwise they stay as they are
    - "": every argument stays as it is

    Any other argument (integer, bool and complex tensors, None, numbers, lists) stays as it is, and so does a tensor in
    float64. Gradients flow back through the casts, each to its tensor in that tensor's own dtype. `args` itself stays
    as it is.

    Returns the arguments as a new list, in their order.
    Read: handbook/precision.md, "Which operation runs in which format"
    """

    raise NotImplementedError("cast_inputs is not written yet. A hint: rankzero hint 03 cast_inputs")


def update_scale(
    scale: float, good_steps: int, overflows: int, finite: bool, growth_interval: int = 2000, hysteresis: int = 1
) -> tuple[float, int, int]:
    """The loss scale, the good steps in a row and the overflows since the last growth, after one more step.

    Both counts start at 0. A step whose gradients are not all finite is an overflow. It ends the row of good steps, and
    it halves the scale if at least `hysteresis` overflows, itself included, have come since the scale last grew. Any
    other step is a good one. The last of `growth_interval` good steps in a row doubles the scale and sets both counts
    to 0. The scale has no limit on either side. With hysteresis=1 this is torch.amp.GradScaler's rule; with 2, one bad
    batch costs a step and no range.

    Example: update_scale(8.0, 3, 0, False, hysteresis=2) returns (8.0, 0, 1).

    Returns (scale, good_steps, overflows), a float and two ints. Read: handbook/precision.md, "A scale that finds
    itself"
    """
    raise NotImplementedError("update_scale is not written yet. A hint: rankzero hint 03 update_scale")


def unscale(parameters: Iterable[nn.Parameter], scale: float) -> list[int]:
    """Divides the gradient of every parameter by `scale`, in place, and returns where gradients are not finite.

    `parameters` may be a generator. Every gradient is divided once: also when another gradient is infinite, and when a
    parameter occurs twice, as a tied weight does in a list made by hand. A parameter without a gradient is left alone.
    Gradients may be fp64, fp32, bf16 or fp16, in any mixture. A gradient is finite if it holds no inf, no -inf and no
    nan, however large its numbers are.

    Returns the positions in `parameters`, counted from 0 in ascending order, at which a parameter has a gradient that
    is not finite. A list of ints; the empty list says that the update may be made.
    Read: handbook/precision.md, "A scale that finds itself"
    """
    raise NotImplementedError("unscale is not written yet. A hint: rankzero hint 03 unscale")


def scaled_step(
    model: nn.Module,
    optimizer: Optimizer,
    micro_batches: Sequence[tuple[Tensor, Tensor]],
    scale: float,
    max_norm: float,
    low: torch.dtype = torch.float16,
) -> tuple[float, bool]:
    """One update of `model` under autocast to `low`, from several micro-batches, with a scaled loss.

    `model` maps token ids int64 [B, T] to logits [B, T, V]. Each micro-batch is a pair (x, y) of int64 [B, T]; all have
    the same shape. They go through the model in their order, one forward and one backward each. Forward pass and loss
    run under `torch.autocast("cpu", dtype=low)`, backward does not, and it starts from the scaled loss.

    The update follows the gradient of the mean loss over all micro-batches, without the scale, limited to `max_norm`
    by nn.utils.clip_grad_norm_. If any number of that gradient is not finite, nothing is updated: neither a weight nor
    anything the optimizer keeps. Gradients from before must not count. The model stays in the mode it is in.

    Returns (loss, updated): the mean cross-entropy over all micro-batches in nats, without the scale, a float; and
    whether there was an update, a bool. The scale itself is the caller's to change.
    Read: handbook/precision.md, "A scale that finds itself"
    """
    raise NotImplementedError("scaled_step is not written yet. A hint: rankzero hint 03 scaled_step")


def make_masters(model: nn.Module) -> list[nn.Parameter]:
    """A list of fp32 copies of `model`'s parameters, in the order of `model.parameters()`, for an optimizer to update.

    Parameters are bf16, fp16 or fp32; an fp32 parameter gets a copy of its own as well. No copy shares memory with the
    model. Buffers get no copy.
    """
    raise NotImplementedError("make_masters is not written yet. A hint: rankzero hint 03 make_masters")


def master_step(model: nn.Module, masters: Sequence[nn.Parameter], optimizer: Optimizer) -> None:
    """One update of the masters with the model's gradients, and of the model's weights with the masters.

    `optimizer` was made for `masters`, which came from make_masters. The model's parameters hold the gradients of one
    backward pass, in their own dtype; these gradients stay as they are. A parameter whose gradient is None must stay as
    it is, and its master too. Afterwards each of the model's parameters is its master, rounded to its own dtype. The
    parameters remain the same tensors in the same memory, because other code refers to them.
    Read: handbook/precision.md, "Where each number wants which format"
    """
    raise NotImplementedError("master_step is not written yet. A hint: rankzero hint 03 master_step")
