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
    """Returns the share of gradients that become 0 when multiplied by `scale` and then stored in `dtype`.

    `gradients` are fp32 or fp64 tensors of any shapes, or None for a parameter that has none; they may come from a
    generator. Every number counts the same, in large and small tensors. Numbers that are 0 before count neither as lost
    nor in the total; inf and nan are in the total. Each gradient is compared with 0 and multiplied in its own dtype.
    `dtype` is torch.float16 or torch.bfloat16, `scale` a power of two, which may be larger than `dtype` can hold. The
    gradients stay unchanged.

    Returns a Python float between 0.0 and 1.0; 0.0 where no gradient differs from 0.
    Read: handbook/precision.md, "Underflow and loss scaling"
    """
    ### BEGIN SOLUTION
    lost, there = 0, 0
    for gradient in gradients:
        if gradient is None:
            continue
        nonzero = gradient[gradient != 0]
        lost += int(((nonzero * scale).to(dtype) == 0).sum())
        there += nonzero.numel()
    return lost / there if there else 0.0
    ### END SOLUTION


def cast_inputs(policy: str, args: Sequence[Any], low: torch.dtype) -> list[Any]:
    """Returns the arguments `args` of an operation, cast as autocast casts them for an operation of this `policy`.

    - "lower": each fp32, bf16 or fp16 tensor is cast to `low` (torch.bfloat16 or torch.float16)
    - "fp32": each fp32, bf16 or fp16 tensor is cast to torch.float32
    - "widest": as "fp32" if any of these tensors is fp32; otherwise all stay unchanged
    - "": every argument stays unchanged

    Any other argument (integer, bool and complex tensors, None, numbers, lists) stays unchanged, and so does a float64
    tensor. Floating-point tensors are fp64, fp32, bf16 or fp16; an nn.Parameter is a tensor like any other. Gradients
    flow back through the casts, each to its tensor in that tensor's own dtype. `args` itself stays unchanged.

    Returns the arguments as a new list, in their order.
    Read: handbook/precision.md, "Autocast: the format of each operation"
    """

    ### BEGIN SOLUTION
    def casts(value: Any) -> bool:
        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64

    if policy == "lower":
        target = low
    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
        target = torch.float32
    else:
        return list(args)
    return [one.to(target) if casts(one) else one for one in args]
    ### END SOLUTION


def update_scale(
    scale: float, good_steps: int, overflows: int, finite: bool, growth_interval: int = 2000, hysteresis: int = 1
) -> tuple[float, int, int]:
    """Returns the loss scale, the good steps in a row and the overflows since the last growth, after one more step.

    Both counts start at 0. A step whose gradients are not all finite is an overflow. An overflow sets the count of good
    steps to 0. It halves the scale if at least `hysteresis` overflows have come since the scale last grew, the current
    one included. Any other step is a good step. The last of `growth_interval` good steps in a row doubles the scale and
    sets both counts to 0. The scale has no upper or lower limit. With hysteresis=1 this is torch.amp.GradScaler's rule;
    with 2, a single bad batch costs a step but does not halve the scale.

    Example: update_scale(8.0, 3, 0, False, hysteresis=2) returns (8.0, 0, 1).

    Returns (scale, good_steps, overflows), a float and two ints. Read: handbook/precision.md, "Dynamic loss
    scaling"
    """
    ### BEGIN SOLUTION
    if not finite:
        overflows += 1
        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
    if good_steps + 1 == growth_interval:
        return scale * 2.0, 0, 0
    return scale, good_steps + 1, overflows
    ### END SOLUTION


def unscale(parameters: Iterable[nn.Parameter], scale: float) -> list[int]:
    """Divides every parameter's gradient by `scale`, in place, and returns the positions of gradients not finite.

    `parameters` may be a generator. Every gradient is divided exactly once, also if another gradient is infinite, or if
    a parameter occurs twice, as a tied weight does in a list made by hand. Parameters without a gradient are skipped.
    Gradients may be fp64, fp32, bf16 or fp16, in any mixture. A gradient is finite if after the division it holds no
    inf, no -inf and no nan, however large its numbers are. A scale below 1 can make a finite number inf.

    Returns the positions in `parameters`, counted from 0 in ascending order, at which a parameter has a gradient that
    is not finite, as a list of ints. If the list is empty, the update may be made.
    Read: handbook/precision.md, "Dynamic loss scaling"
    """
    ### BEGIN SOLUTION
    not_finite: list[int] = []
    divided: set[int] = set()
    for position, parameter in enumerate(parameters):
        if parameter.grad is None:
            continue
        if id(parameter) not in divided:
            divided.add(id(parameter))
            parameter.grad.div_(scale)
        if not parameter.grad.isfinite().all():
            not_finite.append(position)
    return not_finite
    ### END SOLUTION


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
    run under `torch.autocast("cpu", dtype=low)`. Backward runs outside autocast, on the scaled loss.

    The update uses the gradient of the mean loss over all micro-batches, without the scale, clipped to `max_norm` by
    nn.utils.clip_grad_norm_. If any number of that gradient is not finite, nothing is updated: neither weights nor
    optimizer state. Only the gradient decides: an infinite loss with a finite gradient makes an update. A micro-batch
    with a loss of nan is not left out. The optimizer holds all parameters, in one or several parameter groups, which
    may have different learning rates. Gradients from before the call have no effect: a parameter that the model does
    not use stays unchanged even if the optimizer has weight decay. The model runs in its mode and stays in it.

    Returns (loss, updated): the mean cross-entropy over all micro-batches in nats, without the scale, a float; and
    whether there was an update, a bool. A loss whose product with the scale is inf is returned as it is, too. The
    caller changes the scale.
    Read: handbook/precision.md, "Dynamic loss scaling"
    """
    ### BEGIN SOLUTION
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for x, y in micro_batches:
        with torch.autocast("cpu", dtype=low):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        (loss * scale / len(micro_batches)).backward()
        total += loss.item()
    updated = not unscale(model.parameters(), scale)
    if updated:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return total / len(micro_batches), updated
    ### END SOLUTION


def make_masters(model: nn.Module) -> list[nn.Parameter]:
    """Returns fp32 copies of `model`'s parameters as a list, in the order of `model.parameters()`.

    An optimizer updates these copies. Parameters are bf16, fp16 or fp32; an fp32 parameter is copied too, and so is a
    frozen one, because master_step pairs the two lists. No copy shares memory with the model. Buffers are not copied.
    """
    ### BEGIN SOLUTION
    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
    ### END SOLUTION


def master_step(model: nn.Module, masters: Sequence[nn.Parameter], optimizer: Optimizer) -> None:
    """Updates the masters with the model's gradients, then the model's weights with the masters.

    `masters` came from make_masters. `optimizer` was made for them, in one or several parameter groups, which may hold
    them in another order. The model's parameters hold the gradients of one backward pass, in their own dtype; these
    gradients stay unchanged. A parameter whose gradient is None stays unchanged, and so does its master. After the
    call, each parameter equals its master, rounded to the parameter's dtype. The parameters remain the same tensors in
    the same memory, because other code refers to them.
    Read: handbook/precision.md, "The format of each number"
    """
    ### BEGIN SOLUTION
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = None if parameter.grad is None else parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.copy_(master)
    ### END SOLUTION
