"""Forward recorder: the inputs and outputs of a model's forward passes, as proof of which sequences it ran on."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rankzero.exercises.probes.untrusted_values import is_tensor


class ForwardRecorder:
    """Records each forward pass of `model` and of its copies, by the class that it gives `model`.

    Its calls are recorded as model(x), model.forward(x) and type(model).forward(model, x). `logits()` identifies the
    sequences that the model ran on, however they were split into batches, and even if the caller changed the output.
    `then` is called with the output at the end of each pass.
    """

    def __init__(self, model: nn.Module, then: Callable[[Tensor], None] = lambda output: None) -> None:
        self.passes = 0
        self.inputs: list[Tensor] = []  # of passes with gradients enabled; a validation pass is not training
        self._then = then
        self._means: dict[tuple[int, ...], float] = {}  # mean logit per sequence, from its last pass
        base = type(model)
        run = base.forward

        def forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            output = run(module, *args, **kwargs)
            self._note(next(iter((*args, *kwargs.values()))), output)
            return output

        names = {"forward": forward, "__module__": base.__module__, "__qualname__": base.__qualname__}
        model.__class__ = type(base.__name__, (base,), names)

    def _note(self, tokens: Any, output: Any) -> None:
        if not is_tensor(tokens) or not is_tensor(output):
            raise TypeError("the model was given, or returned, a tensor subclass or something that is no tensor")
        self.passes += 1
        if torch.is_grad_enabled():
            self.inputs.append(tokens.clone())
        for sequence, logits in zip(tokens.tolist(), output.detach(), strict=True):
            self._means[tuple(sequence)] = logits.mean().item()
        self._then(output)

    def logits(self) -> float | None:
        """Returns the mean logit over all sequences; None before the first pass."""
        return sum(self._means.values()) / len(self._means) if self._means else None
