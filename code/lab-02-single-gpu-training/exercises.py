"""Lab 02, exercises: the training loop, written by hand.

Five exercises, in the order of the page. Each is one function (the last one, two) with a contract in its docstring.
Replace the line that raises NotImplementedError; keep the signatures. B = sequences per batch, T = tokens per sequence,
V = tokens in the vocabulary. A float is Python's float, or NumPy's float64, which is one; an int is Python's int. A
tensor is neither: loss.item() makes a float of it.

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
    The update follows this batch's gradient alone: gradients that are there from before must not count. The global norm
    of the gradient is the root of the sum of the squares of all its numbers, over all parameters; a parameter without a
    gradient adds nothing. A gradient with a norm above `max_norm` is multiplied by max_norm / norm before the update;
    any other stays as it is. `max_norm` may be math.inf. Write the clipping by hand, without torch.nn.utils.
    A batch of nothing but padding updates nothing and returns (0.0, 0.0). The model runs once per step, in the
    mode it is in; `x` and `y` stay as they are. `optimizer` holds all parameters of `model`.

    Returns the loss before the update, in nats per token, and the norm before clipping, both Python floats.
    Read: handbook/training-loop.md, and handbook/gradient-mechanics.md, "Clipping, by norm and by value"
    """
    raise NotImplementedError("train_step is not written yet. A hint: rankzero hint 02 train_step")


def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> list[float]:
    """Mean loss of `model` at each of the T positions of a sequence, over all of `batches`, without training it.

    Each of one or more batches is a pair `x`, `y` of int64 [B, T]; B may differ from batch to batch, T does not, and a
    generator may yield them. Targets of -100 are padding and do not count. At each position every real token of every
    batch counts the same. Losses are added up in float32 or float64, also for a model in bf16. Dropout is off while
    this runs, nothing is kept for a backward pass, and afterwards everything is as it was found: the mode of each
    module (training or evaluation; they may differ), the weights and buffers, which weights are frozen, their
    gradients, `x` and `y`, torch's random generator, and whether gradients are on.

    Returns T Python floats in a list, in nats per token; nan for a position at which all targets are padding.
    Read: handbook/forward-pass.md, "Two switches"
    """
    raise NotImplementedError("evaluate is not written yet. A hint: rankzero hint 02 evaluate")


def learning_rate(step: int, peak: float, warmup_steps: int, total_steps: int, floor: float) -> float:
    """The rate of step 0, 1, 2, ...: a linear warm-up to `peak`, then a cosine down to `floor`.

    The `warmup_steps` steps 0 ... warmup_steps - 1 rise in equal parts: the first already learns, with
    peak / warmup_steps, and the last one has `peak`. Step `warmup_steps` has `peak` too: there the cosine begins. It
    ends at step `total_steps` with `floor`, and every later step has `floor`. `warmup_steps` may be 0; `total_steps` is
    larger. The answer depends on the arguments alone: steps may be asked for in any order.

    Returns a Python float. Read: handbook/learning-rate-and-schedules.md, "Warm-up and cosine, step by step"
    """
    raise NotImplementedError("learning_rate is not written yet. A hint: rankzero hint 02 learning_rate")


def overfit_one_batch(model: nn.Module, x: Tensor, y: Tensor, lr: float, target: float, max_steps: int) -> list[float]:
    """Trains `model` on this one batch until it knows it by heart: the first test of any new training loop.

    Uses one AdamW with rate `lr` and its other settings as they are, and does not clip. Takes at most `max_steps`
    steps, and no further step once a loss is below `target`. The model is trained in place, in the mode it is in.

    Returns the losses in nats per token, Python floats in a list, one per step, each from before that step's update;
    the last one is the first below `target`, if any is. Its own update still happens.
    Read: handbook/training-loop.md, "The order is the algorithm"
    """
    raise NotImplementedError("overfit_one_batch is not written yet. A hint: rankzero hint 02 overfit_one_batch")


def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, step: int) -> None:
    """Saves in `path` everything that the steps after `step` depend on, so that `load_checkpoint` can go on exactly.

    The model may contain dropout, which draws from torch's CPU generator, and BatchNorm, whose averages are buffers.
    Saving changes nothing: the run that saves goes on as if it had not. One file holds everything, so that it can be
    moved and renamed; it replaces a file that is there, and no other file is left beside it. It holds tensors and plain
    values only, so that `torch.load` reads it with `weights_only=True`.
    Read: handbook/training-loop.md, "Around the step"
    """
    raise NotImplementedError("save_checkpoint is not written yet. A hint: rankzero hint 02 save_checkpoint")


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Puts what `save_checkpoint` saved into `model`, `optimizer` and torch's CPU generator, and returns the step.

    `model` and `optimizer` are of the same kind as those saved, freshly made, the optimizer perhaps with other
    settings. After this the run goes on as if it had never stopped: the same losses, bit for bit, in the mode that
    `model` is in. `path` may differ from the path it was saved in; its file stays as it is. A file that does not open
    with `weights_only=True` is refused.

    Returns an int. Read: handbook/training-loop.md, "Around the step"
    """
    raise NotImplementedError("load_checkpoint is not written yet. A hint: rankzero hint 02 load_checkpoint")
