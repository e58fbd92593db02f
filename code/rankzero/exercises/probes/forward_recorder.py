"""Forward recorder: the inputs and outputs of a model's forward passes, as proof of which sequences it ran on."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rankzero.exercises.probes.untrusted_values import is_tensor


class ForwardRecorder:
    """Records each forward pass of `model`, called as model(x) or model.forward(x), and of its copies.

    `logits()` identifies the sequences that the model ran on, however they were split into batches, and even if
    the caller changed the output. `then` is called with the output at the end of each pass.
    """

    def __init__(self, model: nn.Module, then: Callable[[Tensor], None] = lambda output: None) -> None:
        self.inputs: list[Tensor] = []  # of passes with gradients enabled; a validation pass is not training
        self._then = then
        self._means: dict[tuple[int, ...], float] = {}  # mean logit per sequence, from its last pass
        vars(model)["forward"] = _RecordedForward(model.forward, self._note)

    def _note(self, tokens: Any, output: Any) -> None:
        if not is_tensor(tokens) or not is_tensor(output):
            raise TypeError("the model was given, or returned, a tensor subclass or something that is no tensor")
        if torch.is_grad_enabled():
            self.inputs.append(tokens.clone())
        for sequence, logits in zip(tokens.tolist(), output.detach(), strict=True):
            self._means[tuple(sequence)] = logits.mean().item()
        self._then(output)

    def logits(self) -> float | None:
        """Returns the mean logit over all sequences; None before the first pass."""
        return sum(self._means.values()) / len(self._means) if self._means else None


class _RecordedForward:
    """Replaces `forward` of a model, and of each copy of the model."""

    def __init__(self, forward: Callable[..., Any], note: Callable[[Any, Any], None]) -> None:
        self._forward, self._note = forward, note

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self._forward(*args, **kwargs)
        self._note(next(iter((*args, *kwargs.values()))), output)
        return output

    def __deepcopy__(self, memo: dict[int, Any]) -> "_RecordedForward":
        return _RecordedForward(copy.deepcopy(self._forward, memo), self._note)
