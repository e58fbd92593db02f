"""Curves and their derivatives, which the claims of handbook/activation-functions.md share."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Curve = Callable[[Tensor], Tensor]
CURVES: dict[str, Curve] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "ReLU": F.relu,
    "leaky ReLU": F.leaky_relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
}


def _derivative(curve: Curve, x: Tensor) -> Tensor:
    """Returns the curve's derivative at each number of `x`, by autograd."""
    at = x.detach().clone().requires_grad_()
    (derivative,) = torch.autograd.grad(curve(at).sum(), at)
    return derivative


def _grid() -> Tensor:
    """Returns -8 to 8 in steps of 0.0001, float64."""
    return torch.linspace(-8, 8, 160_001, dtype=torch.float64)


def _gelu_by_hand(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
