"""Causality: whether a model that predicts next tokens can see them."""

import torch
from torch import Tensor

from rankzero.triage.observe.model_watch import ModelWatch
from rankzero.triage.observe.watch import Watch

AT_STEP = 2
NEXT = 0.9  # least share of targets that are the next input, in a script that predicts next tokens


def are_tokens(values: Tensor) -> bool:
    """Returns whether the values are token numbers [B, T]."""
    return values.dim() == 2 and values.shape[1] > 1 and values.dtype in (torch.int64, torch.int32)


def look(watch: Watch, model: ModelWatch) -> None:
    """After an early update, changes the last token of an input, and notes how much earlier outputs change."""
    module, forward, record = model.module(), model.trained, model.record
    if len(record.steps) != AT_STEP or module is None or forward is None or not forward.alone or not forward.inputs:
        return
    tokens = forward.inputs[0][:1]
    if watch.record.ranks > 1 or (record.target_is_next or 0.0) < NEXT or not are_tokens(tokens) or not record.classes:
        return
    modes = [(part, part.training) for part in module.modules()]
    generator, changed = torch.get_rng_state(), tokens.clone()
    changed[0, -1] = (tokens[0, -1] + 1) % record.classes
    try:
        module.eval()
        before, after = module(tokens), module(changed)
    finally:
        for part, training in modes:
            part.training = training
        torch.set_rng_state(generator)
    if isinstance(before, Tensor) and before.shape[:2] == tokens.shape:
        record.sees_next = float((before - after)[0, :-1].abs().max() / before.abs().max().clamp_min(1e-12))


def look_at_parts(watch: Watch, model: ModelWatch, scores: Tensor, targets: Tensor) -> None:
    """Where the script calls a model's parts itself: takes the gradient of one output by all embedded tokens."""
    if watch.embedded is None or watch.embedded[0] is model or len(model.record.steps) != AT_STEP:
        return
    _, tokens, embedded = watch.embedded
    is_next = (model.record.target_is_next or 0.0) >= NEXT
    if not is_next or tokens.numel() != targets.numel() or scores.numel() % targets.numel() or watch.record.ranks > 1:
        return
    middle = (tokens.shape[1] - 1) // 2
    with torch.enable_grad():
        output = scores.reshape(*tokens.shape, -1)[0, middle].sum()
        (gradient,) = torch.autograd.grad(output, embedded, retain_graph=True, allow_unused=True)
    if gradient is not None:
        sizes = gradient[0].abs().amax(-1)
        model.record.sees_next = float(sizes[middle + 1 :].max() / sizes.max().clamp_min(1e-12))
