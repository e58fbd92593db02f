"""Forward passes: calls of whole models, in training and in validation, with the modes of their layers."""

from typing import Any

import torch
from torch import Tensor, nn

from rankzero.triage.observe import causality, data
from rankzero.triage.observe.model_watch import ForwardPass, ModelWatch
from rankzero.triage.observe.watch import Watch, plain


def install(watch: Watch) -> None:
    """Observes every call of a module from outside any other module."""
    call = nn.Module.__call__

    def observed(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or watch.busy:
            return call(self, *args, **kwargs)
        if watch.current is not None:
            watch.current.called.add(id(self))
            return call(self, *args, **kwargs)
        model = watch.model_of(self)
        if model is None:
            return call(self, *args, **kwargs)
        inputs = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        training = torch.is_grad_enabled()
        with watch.looking():
            _before(watch, model, inputs, training, len(args) + len(kwargs) == 1)
        watch.current = model
        try:
            output = call(self, *args, **kwargs)
        finally:
            watch.current, watch.last = None, model
        if training and inputs and plain(output) and causality.are_tokens(inputs[0]) and output.dim() == 3:
            watch.embedded = model, inputs[0], output
        return output

    nn.Module.__call__ = observed  # type: ignore[method-assign]


def _before(watch: Watch, model: ModelWatch, inputs: list[Tensor], training: bool, alone: bool) -> None:
    modes = model.modes()
    model.record.mode_layers = ", ".join(sorted({name for name, _ in modes}))
    in_train = bool(modes) and all(mode for _, mode in modes)
    in_eval = bool(modes) and not any(mode for _, mode in modes)
    given = [value for value in inputs if plain(value)]
    if not training:
        model.record.validation_calls += 1
        model.record.validation_in_train += in_train
        data.note_validation(model, given)
        return
    if watch.since is not None and model.step.wait_s is None:
        model.step.wait_s = watch.now() - watch.since
    if model.waiting and model.waiting.backward_calls:  # one of training, although the model got no gradient
        confirm(watch, model)
    again = model.waiting is not None  # the last forward pass had no backward pass, or has not had it yet
    if again or not any(other.waiting for other in watch.known):
        watch.batch_of, watch.batch = model, given
    model.waiting = ForwardPass(given, in_train, in_eval, alone)
    model.called.add(id(model.module()))
    model.relus = 0


def confirm(watch: Watch, model: ModelWatch) -> None:
    """Notes the forward pass that waits for a backward pass: now that this has come, it was one of training."""
    forward, record = model.waiting, model.record
    if forward is None:
        return
    model.waiting, model.trained = None, forward
    record.training_calls += 1
    record.eval_after_train += forward.in_eval and model.seen_in_train
    model.seen_in_train |= forward.in_train
    if watch.batch_of is model:
        data.note_training(model, watch)
    if forward.loss is not None:
        forward.loss.note(model)
        data.note_labels(watch, forward.loss.labels)
