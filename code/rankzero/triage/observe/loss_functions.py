"""Loss functions: the values that the script gives them, and the values that they return."""

import functools
import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.triage.observe import causality
from rankzero.triage.observe.model_watch import ModelWatch
from rankzero.triage.observe.watch import Watch, plain

NAMES = (
    *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits"),
)
FIRST_CALLS = 8  # whose inputs are examined
SUM_TOLERANCE = 1e-3  # of probabilities, whose sum is 1


def install(watch: Watch) -> None:
    """Observes the loss functions of torch.nn.functional, which the classes in torch.nn call too."""
    for name in NAMES:
        setattr(F, name, _observed(getattr(F, name), name, watch))


def _observed(function: Any, name: str, watch: Watch) -> Any:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def observed(*args: Any, **kwargs: Any) -> Any:
        loss = function(*args, **kwargs)
        model = watch.last
        if torch.compiler.is_compiling() or watch.busy or watch.current or model is None or not plain(loss):
            return loss
        training = loss.requires_grad
        with watch.looking():
            given = signature.bind(*args, **kwargs).arguments
            call = LossCall(watch, name, given, loss.detach())
            if not training:
                model.record.validation_losses.append(call.mean)
            elif model.waiting is not None:
                model.waiting.loss = call
                causality.look_at_parts(watch, model, given["input"], call.targets)
        return loss

    return observed


class LossCall:
    """One call of a loss function."""

    def __init__(self, watch: Watch, name: str, given: dict[str, Any], loss: Tensor) -> None:
        self.scores, self.targets = given["input"].detach(), given["target"].detach()
        self.tokens = watch.batch[0] if watch.batch else None
        labels = name in ("cross_entropy", "nll_loss") and not self.targets.is_floating_point()
        self.labels = self.targets if labels and plain(self.targets) else None
        items = self.targets.numel()
        if labels:
            items = int((self.targets != given.get("ignore_index", -100)).sum())
        self.mean = float(loss.float().sum()) / (max(1, items) if given.get("reduction", "mean") != "mean" else 1)
        self.classes = self.scores.shape[1] if name == "cross_entropy" and labels and self.scores.dim() >= 2 else None

    def note(self, model: ModelWatch) -> None:
        """Notes the call in the record of the model whose output it judges."""
        record, model.step.loss = model.record, self.mean
        record.loss_calls += 1
        if record.first_loss is None:
            record.first_loss = self.mean
        record.classes = self.classes
        if self.classes and record.loss_calls <= FIRST_CALLS:
            record.probability_calls += self._has_probabilities()
            self._compare_with_input(model)

    def _has_probabilities(self) -> bool:
        """Returns whether the scores [N, K, ...] of each item are positive and add up to 1."""
        values = self.scores.float()
        return bool((values >= 0).all()) and bool((values.sum(1) - 1).abs().max() < SUM_TOLERANCE)

    def _compare_with_input(self, model: ModelWatch) -> None:
        """Compares the targets with the tokens [B, T] that the model was given."""
        tokens = self.tokens
        if tokens is None or tokens.is_floating_point() or tokens.dim() != 2 or tokens.shape[1] < 2:
            return
        if tokens.numel() == self.targets.numel():
            targets = self.targets.reshape(tokens.shape)
            model.record.target_is_input = float((targets == tokens).float().mean())
            model.record.target_is_next = float((targets[:, :-1] == tokens[:, 1:]).float().mean())
