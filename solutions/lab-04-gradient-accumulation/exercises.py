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
    ### BEGIN SOLUTION
    model.zero_grad(set_to_none=True)
    parameters, total = list(model.parameters()), 0.0
    sums: list[Tensor | None] = [None for _ in parameters]
    for micro_x, micro_y in zip(x.chunk(k), y.chunk(k), strict=True):
        loss = F.cross_entropy(model(micro_x).flatten(0, 1), micro_y.flatten()) / k
        loss.backward()
        total += loss.item()
        for place, parameter in enumerate(parameters):
            if parameter.grad is not None:
                gradient = parameter.grad.to(torch.promote_types(parameter.dtype, torch.float32))
                so_far = sums[place]
                sums[place] = gradient if so_far is None else so_far + gradient
                parameter.grad = None
    return total, sums
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    model.zero_grad(set_to_none=True)
    scored = sum(int((y != -100).sum()) for _, y in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        summed = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
        (summed / scored).backward()
        total += summed.item()
    return total / scored
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    losses: list[float] = []
    stream = iter(micro_batches)
    while group := list(itertools.islice(stream, k)):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for x, y in group:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(group)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    optimizer.zero_grad(set_to_none=True)
    count = 0
    for x, y in micro_batches:
        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        count += 1
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(count)
    norm = clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return norm
    ### END SOLUTION


def count_updates(micro_batches: int, k: int, epochs: int) -> int:
    """Returns the number of updates of `epochs` passes of `train_epoch` over `micro_batches` micro-batches each.

    This int is the length of a schedule. Each pass ends with an update for the micro-batches that are left, if any.
    Without micro-batches, or without passes, there are 0 updates.
    """
    ### BEGIN SOLUTION
    return epochs * math.ceil(micro_batches / k)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    rates: list[float] = []
    for epoch in epochs:
        stream = iter(epoch)
        while group := list(itertools.islice(stream, k)):
            rates.append(optimizer.param_groups[0]["lr"])
            train_epoch(model, optimizer, group, k)
            scheduler.step()
    return rates
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    small, big = micro_batch, len(gradients) * micro_batch
    norm_small = gradients.square().sum(1).mean().item()
    norm_big = gradients.mean(0).square().sum().item()
    signal = (big * norm_big - small * norm_small) / (big - small)
    noise = (norm_small - norm_big) / (1 / small - 1 / big)
    return signal, noise
    ### END SOLUTION


def noise_scale(steps: Sequence[Tensor], micro_batch: int) -> float:
    """Returns the gradient noise scale tr(S) / |G|^2, in sequences, from the gradients of several steps.

    Each of `steps` is a tensor [k, P] as for `noise_estimates`; k may differ between steps, and all steps count the
    same. Both estimates are noisy, and a ratio of noisy numbers is biased: average each estimate over the steps first,
    then divide once.

    Returns a Python float; math.inf where the averaged |G|^2 is not above 0, because then no signal was found.
    """
    ### BEGIN SOLUTION
    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]
    signal = sum(one for one, _ in estimates) / len(estimates)
    noise = sum(one for _, one in estimates) / len(estimates)
    return noise / signal if signal > 0 else math.inf
    ### END SOLUTION
