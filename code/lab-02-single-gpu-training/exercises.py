"""Lab 02, exercises: the training loop, written by hand.

Five exercises, in the order of the page. Each is one function (the last one, two) with a contract in its docstring.
Replace the line that raises NotImplementedError; keep the signatures. B = sequences per batch, T = tokens per sequence,
V = tokens in the vocabulary. A float is a Python float, or NumPy's float64, a subclass of it; an int is a Python int.
A tensor is neither: loss.item() returns a float.

    rankzero check 02                  # all of them
    rankzero check 02 train_step       # one
    rankzero hint 02 train_step        # when stuck
"""

import math
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer


def train_step(model: nn.Module, optimizer: Optimizer, x: Tensor, y: Tensor, max_norm: float) -> tuple[float, float]:
    """One update of `model` on one batch, with padding in its targets and a limit on its gradient's norm.

    `model` maps token ids int64 [B, T] to logits [B, T, V]; `x` and `y` are int64 [B, T], `y` the token after each `x`,
    or -100 for padding. The loss is the mean cross-entropy over the real tokens, those that are not padding.
    The update uses this batch's gradient alone: gradients from before the call have no effect. A parameter that the
    batch does not use has None as gradient, not 0, and stays as it is: weight decay moves one with a gradient of 0.
    The global norm of the gradient is the root of the sum of the squares of all its numbers, over all parameters; a
    parameter without a gradient adds nothing. A gradient with a norm above `max_norm` is multiplied by max_norm / norm
    before the update; any other stays as it is. `max_norm` is above 0 and may be math.inf. Write the clipping by hand,
    without torch.nn.utils. If all targets are padding, change nothing, not even p.grad, and return (0.0, 0.0). The
    model runs once per step, in the mode that it has; `x` and `y` stay unchanged. `optimizer` holds all parameters of
    `model`, in one or several parameter groups, which may have different learning rates.

    Returns the loss before the update, in nats per token, and the norm before clipping, both Python floats.
    Read: handbook/training-loop.md, and handbook/gradient-mechanics.md, "Clipping, by norm and by value"
    """
    raise NotImplementedError("train_step is not written yet. A hint: rankzero hint 02 train_step")


def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> list[float]:
    """Returns the mean loss at each of the T positions of a sequence, over all `batches`, without training `model`.

    `batches` yields one or more pairs `x`, `y` of int64 [B, T], and may be a generator. B may differ from batch to
    batch, T does not. Targets of -100 are padding and do not count. At each position every real token of every batch
    counts the same, also one with a loss of nan. Losses are added up in float32 or float64, also those of one batch of
    a model in bf16. Dropout is off during the call, and autograd saves nothing. After the call, all of this is as
    before: the mode of each module (training or evaluation; modules may differ, and two may share a third), the weights
    and buffers, which weights are frozen, their gradients, `x` and `y`, whether gradients are on, and torch's random
    generator, except for what `batches` itself draws, as a DataLoader does.

    Returns T Python floats in a list, in nats per token; nan for a position at which all targets are padding, or a real
    token has a loss of nan.
    Read: handbook/forward-pass.md, "Evaluation mode and no_grad"
    """
    raise NotImplementedError("evaluate is not written yet. A hint: rankzero hint 02 evaluate")


def learning_rate(step: int, peak: float, warmup_steps: int, total_steps: int, floor: float) -> float:
    """Returns the rate of a step, counted from 0: a linear warm-up to `peak`, then a cosine down to `floor`.

    The rate rises in equal parts from step 0, which has peak / warmup_steps, to step warmup_steps - 1, which has
    `peak`; its first rates may be below `floor`. Step `warmup_steps` has `peak` too: the cosine begins there. The
    cosine ends at step `total_steps` with `floor`, and every later step has `floor`. `warmup_steps` may be 0;
    `total_steps` is larger than `warmup_steps`. The rate depends on the arguments alone: the function may be called for
    steps in any order.

    Returns a Python float. Read: handbook/learning-rate-and-schedules.md, "Warm-up and cosine, step by step"
    """
    raise NotImplementedError("learning_rate is not written yet. A hint: rankzero hint 02 learning_rate")


def overfit_one_batch(model: nn.Module, x: Tensor, y: Tensor, lr: float, target: float, max_steps: int) -> list[float]:
    """Trains `model` on this one batch until the loss is below `target`: the first test of any new training loop.

    Uses one AdamW with learning rate `lr` and default settings otherwise, without clipping. Takes at most `max_steps`
    steps, each with one forward pass, and stops after the update whose loss was first below `target`. Nothing else
    stops it, such as a loss that no longer falls, and no loss is rounded; only a loss of nan may stop it too. The model
    is trained in place, in its mode. As in train_step, gradients from before the call have no effect, and a parameter
    that the batch does not use stays as it is.

    Returns the losses in nats per token, a list of Python floats, one per step, each from before that step's update.
    The last loss is the first below `target`, if any is below it.
    Read: handbook/training-loop.md, "The order of the calls"
    """
    raise NotImplementedError("overfit_one_batch is not written yet. A hint: rankzero hint 02 overfit_one_batch")


def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, step: int) -> None:
    """Saves in `path` everything that the steps after `step` depend on, so that `load_checkpoint` can restore it.

    The model may contain dropout, which draws from torch's CPU generator, and BatchNorm, whose averages are buffers.
    Saving does not change the run that saves. One file holds everything, so that it can be moved and renamed. It
    replaces an existing file. No other file is left beside it, and none that was there is lost, such as `run.tmp`
    beside `run.pt`. It holds tensors and plain values only, so that `torch.load` reads it with `weights_only=True`.
    Read: handbook/training-loop.md, "Other parts of a training loop"
    """
    raise NotImplementedError("save_checkpoint is not written yet. A hint: rankzero hint 02 save_checkpoint")


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Restores `model`, `optimizer` and torch's CPU generator from a checkpoint, and returns the saved step.

    `model` and `optimizer` are new objects of the same classes and sizes as the saved ones; the optimizer may have
    other settings. After loading, the run goes on with the same losses, bit for bit, as if it had never stopped: the
    optimizer still updates the parameters of `model`. The mode of `model` does not change. The file may have been moved
    since it was saved; loading does not change it. A file that does not open with `weights_only=True` is refused:
    loading it raises an exception.

    Returns an int. Read: handbook/training-loop.md, "Other parts of a training loop"
    """
    raise NotImplementedError("load_checkpoint is not written yet. A hint: rankzero hint 02 load_checkpoint")
