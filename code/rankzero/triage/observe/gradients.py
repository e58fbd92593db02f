"""Gradients: before and after each backward pass, and clipped ones."""

import sys
import time
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from rankzero.triage.observe import forwards
from rankzero.triage.observe.model_watch import ModelWatch, norm
from rankzero.triage.observe.watch import Watch, plain

FIRST_STEPS = 30  # examined whatever it costs
OUTSIDE = ("/torch/", "/rankzero/triage/")


def install(watch: Watch) -> None:
    """Observes `backward`, the clipping of gradients, and GradScaler."""
    _observe_backward(watch)
    _observe_clipping(watch)
    _observe_scaler(watch)


def _observe_backward(watch: Watch) -> None:
    backward = torch.autograd.backward

    def observed(tensors: Any, *args: Any, **kwargs: Any) -> None:
        if watch.busy or watch.updating or torch.compiler.is_compiling():
            backward(tensors, *args, **kwargs)
            return
        waiting = [model for model in watch.known if model.waiting]
        with watch.looking():
            for model in waiting:
                _before(model)
        began = time.perf_counter()
        watch.busy = True  # a backward pass may call modules again, to recompute activations
        try:
            backward(tensors, *args, **kwargs)
        finally:
            watch.busy = False
        watch.backward_s += time.perf_counter() - began
        place, watch.embedded = _place(), None
        with watch.looking():
            watch.record.anomaly_detection |= torch.is_anomaly_enabled()
            for model in waiting:
                _after(watch, model, tensors, place)

    torch.autograd.backward = observed


def _before(model: ModelWatch) -> None:
    stale, step = norm(model.gradients(updated=True)), model.step
    if stale == 0 and step.backward_calls:  # cleared since: as in a GAN, what another loss has added is not used
        step.backward_calls, step.loss_share = 0, None
    if step.backward_calls == 0:
        step.stale = stale
    model.gradient_before = norm(model.gradients())


def _after(watch: Watch, model: ModelWatch, tensors: Any, place: str) -> None:
    step, arrived = model.step, norm(model.gradients())
    if watch.affordable() or (step.backward_calls == 0 and len(model.record.steps) < FIRST_STEPS):
        _note_layers(model)
    if model.waiting:
        model.waiting.backward_calls += 1
    if arrived == model.gradient_before:  # another model's backward pass, or this model is cut off from the loss
        return
    forwards.confirm(watch, model)
    model.learns = True
    step.backward_place = place if step.backward_calls == 0 or step.backward_place == place else ""
    step.backward_calls += 1
    step.arrived = arrived
    if plain(tensors) and tensors.numel() == 1 and step.loss:
        step.loss_share = (step.loss_share or 0.0) + float(tensors) / watch.scale / step.loss


def _note_layers(model: ModelWatch) -> None:
    """Notes which parameters have a gradient."""
    for layer, weight, owner in zip(model.record.layers, model.weights(), model.owners, strict=True):
        if weight is not None and weight.requires_grad and weight.device.type != "meta":
            layer.backward_calls += 1
            layer.called |= owner in model.called
            if weight.grad is not None:
                layer.gradient = norm([weight.grad])
                layer.gradients += 1


def _place() -> str:
    """Returns file:line of the innermost code that is neither torch's nor this package's."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        code: CodeType = frame.f_code
        if not any(part in code.co_filename for part in OUTSIDE):
            return f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _observe_clipping(watch: Watch) -> None:
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        function = getattr(nn.utils, name)

        def observed(parameters: Any, *args: Any, _function: Any = function, **kwargs: Any) -> Any:
            given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            with watch.looking():
                _note_clipping(watch, {id(parameter) for parameter in given})
            return _function(given, *args, **kwargs)

        setattr(nn.utils, name, observed)
        setattr(nn.utils.clip_grad, name, observed)


def _note_clipping(watch: Watch, ids: set[int]) -> None:
    for model in watch.known:
        if model.learns and not model.ids.isdisjoint(ids):
            scaled = watch.scale != 1 and not watch.unscaled
            moment = "after update" if model.step.backward_calls == 0 else "scaled" if scaled else "before update"
            model.step.clips.append(moment)


def _observe_scaler(watch: Watch) -> None:
    scaler = torch.amp.GradScaler
    scale, unscale = scaler.scale, scaler.unscale_

    def observed_scale(self: Any, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        watch.scale, watch.unscaled = self.get_scale(), False
        return scaled

    def observed_unscale(self: Any, optimizer: Any) -> None:
        unscale(self, optimizer)
        watch.unscaled = True

    scaler.scale, scaler.unscale_ = observed_scale, observed_unscale  # type: ignore[method-assign]
