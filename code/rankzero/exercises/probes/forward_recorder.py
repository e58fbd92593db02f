"""What goes through a model while a probe looks on: proof that it was run, and on what."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rankzero.exercises.probes.untrusted_values import is_tensor


class ForwardRecorder:
    """Looks at each forward pass of `model` from now on, as model(x) or model.forward(x), and of copies of it.

    `logits()` shows that it ran on these very sequences, however they were cut into batches, and whatever was made of
    its output. `then` is called at the end of each pass, with that output.
    """

    def __init__(self, model: nn.Module, then: Callable[[Tensor], None] = lambda output: None) -> None:
        self.inputs: list[Tensor] = []  # of passes with gradients on: a look at the loss is not training
        self._then = then
        self._means: dict[tuple[int, ...], float] = {}  # of a sequence's logits: a second look at it counts for nothing
        vars(model)["forward"] = _RecordedForward(model.forward, self._note)

    def _note(self, tokens: Any, output: Any) -> None:
        if not is_tensor(tokens) or not is_tensor(output):
            raise TypeError("the model was given something of a tensor's kind that is no plain tensor")
        if torch.is_grad_enabled():
            self.inputs.append(tokens.clone())
        for sequence, logits in zip(tokens.tolist(), output.detach(), strict=True):
            self._means[tuple(sequence)] = logits.mean().item()
        self._then(output)

    def logits(self) -> float | None:
        """The mean over all sequences; None if there was none."""
        return sum(self._means.values()) / len(self._means) if self._means else None


class _RecordedForward:
    """Stands where a model's `forward` is; in a copy of the model, where the copy's is."""

    def __init__(self, forward: Callable[..., Any], note: Callable[[Any, Any], None]) -> None:
        self._forward, self._note = forward, note

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self._forward(*args, **kwargs)
        self._note(next(iter((*args, *kwargs.values()))), output)
        return output

    def __deepcopy__(self, memo: dict[int, Any]) -> "_RecordedForward":
        return _RecordedForward(copy.deepcopy(self._forward, memo), self._note)
