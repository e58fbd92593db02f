"""Gradients as vectors: all numbers of a model laid end to end, and how far two vectors are apart."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """All numbers of the tensors as one vector, copied."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def gradient_of(model: nn.Module) -> Tensor:
    """The gradients that the parameters hold, as one vector; parameters without a gradient are left out."""
    return flat(p.grad for p in model.parameters() if p.grad is not None)


def gradient(model: nn.Module, *losses: Callable[[], Tensor]) -> Tensor:
    """The sum of the gradients of the losses, as one vector."""
    model.zero_grad()
    for loss in losses:
        loss().backward()
    return gradient_of(model)


def off_by(measured: Tensor, right: Tensor) -> float:
    """Length of the difference over the length of the right vector."""
    return float((measured - right).norm() / right.norm())


def degrees_between(a: Tensor, b: Tensor) -> float:
    """Angle between two vectors."""
    cosine = nn.functional.cosine_similarity(a.double(), b.double(), dim=0)
    return math.degrees(math.acos(min(1.0, cosine.item())))
