"""What goes through a model while a probe looks on: proof that it was run, and on what."""

from typing import Any

import torch
from torch import Tensor, nn

from rankzero.exercises.plain import is_tensor


class Passes:
    """Looks at each forward pass of `model` from now on.

    `logits()` shows that it ran on these very batches, however they were cut, and whatever was made of its output.
    """

    def __init__(self, model: nn.Module) -> None:
        self.inputs: list[Tensor] = []  # of passes with gradients on: a look at the loss is not training
        self._total, self._count = 0.0, 0
        model.register_forward_hook(self._note)

    def _note(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not is_tensor(inputs[0]) or not is_tensor(output):
            raise TypeError("the model was given something of a tensor's kind that is no plain tensor")
        if torch.is_grad_enabled():
            self.inputs.append(inputs[0].clone())
        self._total += float(output.detach().sum())
        self._count += output.numel()

    def logits(self) -> float | None:
        """The mean over all numbers of all passes; None if there was none."""
        return self._total / self._count if self._count else None
