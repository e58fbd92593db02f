"""Updates: the gradients, learning rate and weights around each step of an optimizer."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from rankzero.triage.observe import causality, graphs
from rankzero.triage.observe.model_watch import ModelWatch, norm
from rankzero.triage.observe.watch import Watch, plain
from rankzero.triage.record import Step

MOST_STEPS = 5000  # kept of one model
FIRST_STEPS = 30  # examined whatever it costs


def install(watch: Watch) -> None:
    """Observes every optimizer."""

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not watch.busy and not torch.compiler.is_compiling():
            watch.updating = True
            with watch.looking():
                for model in watch.trained_by(optimizer):
                    _before(watch, model, optimizer)

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not watch.busy and not torch.compiler.is_compiling():
            watch.updating = False
            with watch.looking():
                if dist.is_available() and dist.is_initialized():
                    watch.record.rank, watch.record.ranks = dist.get_rank(), dist.get_world_size()
                for model in watch.trained_by(optimizer):
                    _after(watch, model)
                watch.since, watch.collective_s, watch.backward_s = watch.now(), 0.0, 0.0
                graphs.look(watch)
                watch.write_at(max((len(model.record.steps) for model in watch.known), default=0))

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)


def _look(watch: Watch, model: ModelWatch) -> bool:
    return len(model.record.steps) < FIRST_STEPS or watch.affordable()


def _before(watch: Watch, model: ModelWatch, optimizer: Optimizer) -> None:
    step, updated = model.step, {id(value) for group in optimizer.param_groups for value in group["params"]}
    step.lr = max(float(group["lr"]) for group in optimizer.param_groups if "lr" in group)
    step.used = norm(model.gradients())
    model.before = []
    if optimizer not in model.optimizers:
        model.optimizers.add(optimizer)
        for layer, weight in zip(model.record.layers, model.weights(), strict=True):
            layer.in_optimizer |= id(weight) in updated
        model.record.orphans = len(updated - set().union(*(other.ids for other in watch.known)))
    if _look(watch, model):
        model.before = [
            weight.detach().clone() if weight is not None and plain(weight) else None for weight in model.weights()
        ]


def _after(watch: Watch, model: ModelWatch) -> None:
    step = model.step
    if watch.since is not None:
        step.whole_s = watch.now() - watch.since
        step.local_s = step.whole_s - watch.collective_s - (watch.backward_s if model.data_parallel() else 0.0)
    changes = zip(model.record.layers, model.weights(), model.before, strict=False)
    for layer, weight, before in changes:
        if weight is not None and before is not None:
            layer.update_ratio = norm([weight.detach() - before]) / max(norm([before]), 1e-12)
            layer.changed = bool(layer.changed) or layer.update_ratio > 0
    model.record.data_parallel |= model.data_parallel()
    if _look(watch, model):
        step.weights = _digest([weight.detach() for weight in model.weights() if weight is not None and plain(weight)])
    if len(model.record.steps) < MOST_STEPS:
        model.record.steps.append(step)
    model.step = Step()
    model.before = []
    causality.look(watch, model)


def _digest(weights: list[Tensor]) -> float:
    """Returns a number that is equal for equal weights: each weight's sum counts with another factor."""
    return sum(float(weight.double().sum()) * (1 + place) for place, weight in enumerate(weights))
