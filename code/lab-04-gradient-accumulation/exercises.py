"""Lab 04, exercises: a large batch in small parts, written by hand.

Six exercises, in the order of the page. Replace each line that raises NotImplementedError; keep the signatures.
B = sequences per batch, T = tokens per sequence, V = tokens in the vocabulary, k = micro-batches per update,
P = parameters.
A *micro-batch* is the sequences of one forward pass; an *update* is one optimizer.step().

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
    """Returns a batch's mean loss and gradient, computed in `k` equal micro-batches and added up in fp32 or wider.

    `model` maps token ids int64 [B, T] to logits [B, T, V]; `x` and `y` are int64 [B, T], and `k` divides B. A
    micro-batch is B/k neighboring sequences. The micro-batches go through the model first to last, one forward and one
    backward each, so that autograd never holds the activations of more than one.

    Backward stores each gradient in its parameter's dtype, which may be bf16. k gradients added up in bf16 lose digits,
    so keep separate sums: in fp32 for an fp32, bf16 or fp16 parameter, in fp64 for an fp64 parameter, also where k is 1
    or a parameter gets only one gradient. One model may have parameters of several dtypes. After the call, every p.grad
    is None. Gradients from before the call have no effect. Weights and the model's mode stay unchanged.

    Returns (loss, gradients): the mean cross-entropy over the batch's B*T tokens, a Python float in nats; and a list
    with a tensor per parameter, in the order of model.parameters(), without a graph. None stands for a parameter that
    gets no gradient, because it is frozen or no micro-batch uses it. Some parameters are used by one micro-batch only.
    Read: handbook/gradient-mechanics.md, "Accumulation over micro-batches" and "Accumulation saves activations only"
    """
    raise NotImplementedError("accumulate is not written yet. A hint: rankzero hint 04 accumulate")


def accumulate_tokens(model: nn.Module, micro_batches: Sequence[MicroBatch]) -> float:
    """Computes in p.grad the gradient of the mean loss over all *scored* tokens of micro-batches that differ in size.

    Each micro-batch is a pair of int64 [B, T]; B and T may differ from one to the next. Targets of -100 mark padding
    and prompts and are not scored; token 0 is a token like any other. Any micro-batches, also the first ones, may have
    no scored token, and may then be skipped; the group has at least one. The caller's tensors, the weights and the
    model's mode stay unchanged. As in `accumulate`, each micro-batch has one forward and one backward, in the order
    given, and gradients from before the call have no effect. Here the gradients add up in p.grad; without a gradient,
    p.grad is None.

    Returns the mean cross-entropy over the group's scored tokens, a Python float in nats.
    Read: handbook/gradient-mechanics.md, "Unequal micro-batches"
    """
    raise NotImplementedError("accumulate_tokens is not written yet. A hint: rankzero hint 04 accumulate_tokens")


def train_epoch(model: nn.Module, optimizer: Optimizer, micro_batches: Iterable[MicroBatch], k: int) -> list[float]:
    """Makes one pass over the data, with one update per group of `k` micro-batches.

    `optimizer` may have several parameter groups. All micro-batches have the same size. Their number need not be a
    multiple of `k`: the last group has the micro-batches that are left. Each update uses its own group's mean gradient;
    gradients from before have no effect. A parameter that a group does not use stays unchanged in its update, even if
    the optimizer has weight decay. `micro_batches` is any iterable: it may be readable only once, have no length, and
    be larger than memory: keep no earlier group. Read at most one micro-batch beyond the current group. As before,
    autograd holds one micro-batch's activations at a time. The caller's tensors and the model's mode stay unchanged.

    Returns a list with one loss per update, Python floats in nats: the mean over the group, before its update. Without
    micro-batches there is no update. Read: handbook/gradient-mechanics.md, "Accumulation over micro-batches"
    """
    raise NotImplementedError("train_epoch is not written yet. A hint: rankzero hint 04 train_epoch")


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Clips the gradient to the norm `max_norm`, in place, and returns the norm before clipping.

    The gradients of all `parameters` together are one vector; its norm is the root of the sum of all squares. If the
    norm is above `max_norm`, all gradients are multiplied by max_norm / norm, with no small number added; otherwise
    they stay unchanged. `max_norm` is above 0. `parameters` may be a generator, as model.parameters() is. Parameters
    whose gradient is None are skipped, even if that is all of them. Gradients may be fp64, fp32, bf16 or fp16, in any
    mixture, and keep their dtype. Compute and add squares of 16-bit gradients in fp32 or fp64, because in fp16 the
    square of 256 is inf, and squares of fp64 gradients in fp64. No norm is rounded to 16 bits.

    Returns a Python float. Write it by hand, without torch.nn.utils.
    Read: handbook/gradient-mechanics.md, "Clipping, by norm and by value"
    """
    raise NotImplementedError("clip_gradients is not written yet. A hint: rankzero hint 04 clip_gradients")


def clipped_update(
    model: nn.Module, optimizer: Optimizer, micro_batches: Iterable[MicroBatch], max_norm: float
) -> float:
    """Makes one update with the mean gradient of these micro-batches, all of the same size, clipped to `max_norm`.

    `micro_batches` is any iterable of at least one micro-batch. It may be readable only once, have no length, and be
    larger than memory, so their number is known only at the end: keep no earlier micro-batch. Read at most one beyond
    the current one. As before, autograd holds one micro-batch's activations at a time. Clip the gradient that the
    update uses: the mean over the whole group, also for a parameter that only some micro-batches use. `optimizer` holds
    all parameters, in one or several parameter groups, which may have different learning rates. Gradients from before
    the call have no effect: a parameter that no micro-batch uses stays unchanged, even with weight decay.

    Returns that gradient's norm before clipping, a Python float.
    Read: handbook/gradient-mechanics.md, "Clipping, by norm and by value"
    """
    raise NotImplementedError("clipped_update is not written yet. A hint: rankzero hint 04 clipped_update")


def count_updates(micro_batches: int, k: int, epochs: int) -> int:
    """Returns the number of updates of `epochs` passes of `train_epoch` over `micro_batches` micro-batches each.

    This int is the length of a schedule. Each pass ends with an update for the micro-batches that are left, if any.
    Without micro-batches, or without passes, there are 0 updates.
    """
    raise NotImplementedError("count_updates is not written yet. A hint: rankzero hint 04 count_updates")


def train_scheduled(
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    epochs: Iterable[Iterable[MicroBatch]],
    k: int,
) -> list[float]:
    """Trains for several passes, with `train_epoch`'s updates, and changes the learning rate once after each update.

    `scheduler` is one of torch's, made for `optimizer`: scheduler.step() changes the rate of every parameter group, and
    nothing else does. It may have taken steps before the call, as in a run that resumes.
    `epochs` are the passes, each an iterable of micro-batches as `train_epoch` takes it; passes and micro-batches may
    be readable only once. A pass without micro-batches makes no update, and the next pass follows. Read at most one
    micro-batch beyond the current group.

    Returns a list of the rates of the first parameter group, one float per update: the rate that the update used.
    Read: handbook/gradient-mechanics.md, "Calls that run once per update"
    """
    raise NotImplementedError("train_scheduled is not written yet. A hint: rankzero hint 04 train_scheduled")


def noise_estimates(gradients: Tensor, micro_batch: int) -> tuple[float, float]:
    """Estimates |G|^2, where G is the true gradient, and the noise around G, from k micro-batches' gradients.

    `gradients` is fp32 or fp64 [k, P]: each row holds all gradients of one micro-batch of `micro_batch` sequences; k is
    at least 2, and the tensor stays unchanged. Compute in its dtype or a wider one. The gradient of a batch of B
    sequences has the expected squared length |G|^2 + tr(S) / B, where S is the covariance of one sequence's gradient.
    Two batch sizes give two equations: B_s = `micro_batch`, where the squared length is the mean over the rows of
    |row|^2, and B_b = k * `micro_batch`, the whole batch, whose gradient is the mean of the rows.

    Returns unbiased estimates of |G|^2 and of tr(S), in this order, as Python floats. A single estimate of |G|^2 can
    be negative. Source: McCandlish et al., arXiv 1812.06162, appendix A.
    Read: handbook/gradient-mechanics.md, "The gradient noise scale"
    """
    raise NotImplementedError("noise_estimates is not written yet. A hint: rankzero hint 04 noise_estimates")


def noise_scale(steps: Sequence[Tensor], micro_batch: int) -> float:
    """Returns the gradient noise scale tr(S) / |G|^2, in sequences, from the gradients of several steps.

    Each of `steps` is a tensor [k, P] as for `noise_estimates`; k may differ between steps, and all steps count the
    same. Both estimates are noisy, and a ratio of noisy numbers is biased: average each estimate over the steps first,
    then divide once.

    Returns a Python float; math.inf where the averaged |G|^2 is not above 0, because then no signal was found.
    """
    raise NotImplementedError("noise_scale is not written yet. A hint: rankzero hint 04 noise_scale")
