"""Lab 04, exercises: a large batch in small parts, written by hand.

Six exercises, in the order of the page. Replace each line that raises NotImplementedError; keep the signatures.
B = sequences per batch, T = tokens per sequence, V = tokens in the vocabulary, k = micro-batches per update,
P = parameters.
A *micro-batch* is what goes through the model at once; an *update* is one optimizer.step().

    rankzero check 04                  # all of them
    rankzero check 04 accumulate       # one
    rankzero hint 04 accumulate        # when stuck
"""

import itertools
import math
from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

MicroBatch = tuple[Tensor, Tensor]  # token ids and targets, int64 [B, T] each


def accumulate(model: nn.Module, x: Tensor, y: Tensor, k: int) -> tuple[float, list[Tensor | None]]:
    """The whole batch's mean loss and its gradient, computed in `k` equal micro-batches and added up in fp32 or wider.

    `model` maps token ids int64 [B, T] to logits [B, T, V]; `x` and `y` are int64 [B, T], and `k` divides B. A
    micro-batch is B/k neighboring sequences; they go through the model first to last, one forward and one backward
    each, so that autograd never holds the activations of more than one.

    Backward leaves each gradient in its parameter's dtype, which may be bf16. Added up there, k gradients lose digits.
    So keep sums of your own: in fp32 for an fp32, bf16 or fp16 parameter, in fp64 for an fp64 parameter. Afterwards
    every p.grad is None. Gradients that are there from before must not count. Weights, and the mode the model is in,
    stay as they are.

    Returns (loss, gradients): the mean cross-entropy over the batch's B*T tokens, a Python float in nats; and a list
    with a tensor per parameter, in the order of model.parameters(), without a graph. None stands for a parameter that
    gets no gradient, because it is frozen or not used.
    Read: handbook/gradient-mechanics.md, "A batch in parts" and "Accumulation saves activations only"
    """
    raise NotImplementedError("accumulate is not written yet. A hint: rankzero hint 04 accumulate")


def accumulate_tokens(model: nn.Module, micro_batches: Sequence[MicroBatch]) -> float:
    """Leaves in each p.grad the gradient of the mean over all *scored* tokens of micro-batches that differ in size.

    Each micro-batch is a pair of int64 [B, T]; B and T may differ from one to the next. A target of -100 is not scored,
    which is how padding and prompts are marked; token 0 is a token like any other. A micro-batch may hold no scored
    token at all, and may then be passed over; the group holds at least one. The tensors belong to the caller and stay
    as they are, and so do the weights and the mode of the model. As before: one forward and one backward per
    micro-batch, in the order given, and no gradients from before. Here the gradients add up in p.grad itself; a
    parameter that gets none has None there.

    Returns the mean cross-entropy over the group's scored tokens, a Python float in nats.
    Read: handbook/gradient-mechanics.md, "Unequal micro-batches"
    """
    raise NotImplementedError("accumulate_tokens is not written yet. A hint: rankzero hint 04 accumulate_tokens")


def train_epoch(model: nn.Module, optimizer: Optimizer, micro_batches: Iterable[MicroBatch], k: int) -> list[float]:
    """One pass over the data, with one update for every `k` micro-batches.

    All micro-batches have the same size. Their number need not be a multiple of `k`: the last update follows the
    micro-batches that are left, and counts them like a batch of that many. Each update follows its own group's mean
    gradient, and nothing that was in p.grad before. `micro_batches` is any iterable: it may be readable once, without a
    length, and larger than memory. Read no further than the group in work, or one micro-batch beyond it. As before,
    autograd holds one micro-batch's activations at a time. The tensors belong to the caller and stay as they are; the
    model stays in its mode.

    Returns a list with one loss per update, Python floats in nats: the mean over the group, before its update. Without
    micro-batches there is no update. Read: handbook/gradient-mechanics.md, "A batch in parts"
    """
    raise NotImplementedError("train_epoch is not written yet. A hint: rankzero hint 04 train_epoch")


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Shortens the gradient to the length `max_norm` where it is longer, in place; returns its length from before.

    The gradients of all `parameters`, laid end to end, are one vector; its length is the root of the sum of all
    squares. All of them are multiplied by the same number. A gradient that is short enough, or 0, stays as it is.
    `parameters` may be a generator, as model.parameters() is; those whose gradient is None are passed over, and all may
    be such. Gradients may be fp64, fp32, bf16 or fp16, in any mixture, and keep their dtype. Compute and add squares of
    16-bit gradients in fp32 or fp64, because in fp16 the square of 256 is inf, and squares of fp64 gradients in fp64.

    Returns a Python float. Write it by hand, without torch.nn.utils.
    Read: handbook/gradient-mechanics.md, "Clipping, by norm and by value"
    """
    raise NotImplementedError("clip_gradients is not written yet. A hint: rankzero hint 04 clip_gradients")


def clipped_update(
    model: nn.Module, optimizer: Optimizer, micro_batches: Iterable[MicroBatch], max_norm: float
) -> float:
    """One update that follows the mean gradient of these micro-batches, all of the same size, clipped to `max_norm`.

    `micro_batches` is any iterable of at least one micro-batch. It may be readable once, without a length, and larger
    than memory: how many there are is known only at the end. Read no further than one beyond the micro-batch in work.
    As before, autograd holds one micro-batch's activations at a time. What is clipped is the gradient that the update
    follows: the whole group's mean. Gradients from before must not count.

    Returns that gradient's norm from before the clipping, a Python float.
    Read: handbook/gradient-mechanics.md, "Clipping, by norm and by value"
    """
    raise NotImplementedError("clipped_update is not written yet. A hint: rankzero hint 04 clipped_update")


def count_updates(micro_batches: int, k: int, epochs: int) -> int:
    """The number of updates that `epochs` passes of `train_epoch` make over `micro_batches` micro-batches each.

    This is the length that a schedule needs to know, an int. Each pass ends with an update for what is left. Without
    micro-batches, or without passes, there are 0 updates.
    """
    raise NotImplementedError("count_updates is not written yet. A hint: rankzero hint 04 count_updates")


def train_scheduled(
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    epochs: Iterable[Iterable[MicroBatch]],
    k: int,
) -> list[float]:
    """Trains for several passes, with `train_epoch`'s updates, and moves the learning rate once after each update.

    `scheduler` is one of torch's, made for `optimizer`: scheduler.step() moves the rate of every parameter group.
    `epochs` are the passes, each an iterable of micro-batches as `train_epoch` takes it; passes and micro-batches may
    be readable once. Read no further than the group in work, or one micro-batch beyond it.

    Returns a list of the rates of the first parameter group, one float per update: the rate that the update used.
    Read: handbook/gradient-mechanics.md, "Everything else happens once an update"
    """
    raise NotImplementedError("train_scheduled is not written yet. A hint: rankzero hint 04 train_scheduled")


def noise_estimates(gradients: Tensor, micro_batch: int) -> tuple[float, float]:
    """Estimates of |G|^2, G being the true gradient, and of the noise around G, from k micro-batches' gradients.

    `gradients` is fp32 or fp64 [k, P]: in each row, all gradients of one micro-batch of `micro_batch` sequences, laid
    end to end; k is at least 2, and the tensor stays as it is. The gradient of a batch of B sequences has the expected
    squared length |G|^2 + tr(S) / B, S being the covariance of one sequence's gradient. Two batch sizes give two
    equations: B_s = `micro_batch`, where the squared length is the mean over the rows of |row|^2, and B_b = k *
    `micro_batch`, the whole batch, whose gradient is the mean of the rows.

    Returns unbiased estimates of |G|^2 and of tr(S), in this order, as Python floats. A single estimate of |G|^2 can
    be negative. Source: McCandlish et al., arXiv 1812.06162, appendix A.
    Read: handbook/gradient-mechanics.md, "How much of a gradient is noise"
    """
    raise NotImplementedError("noise_estimates is not written yet. A hint: rankzero hint 04 noise_estimates")


def noise_scale(steps: Sequence[Tensor], micro_batch: int) -> float:
    """The gradient noise scale tr(S) / |G|^2, in sequences, from the gradients of several steps.

    Each of `steps` is a [k, P] as `noise_estimates` takes it; k may differ between steps, and all of them count the
    same. Both estimates are noisy, and
    a ratio of noisy numbers is biased: average each estimate over the steps first, then divide once.

    Returns a Python float; math.inf where the averaged |G|^2 is not above 0, because then no signal was found.
    """
    raise NotImplementedError("noise_scale is not written yet. A hint: rankzero hint 04 noise_scale")
