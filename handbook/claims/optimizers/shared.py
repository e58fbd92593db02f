"""Updates and gradients that the claims of handbook/optimizers.md share."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

Make = Callable[[list[Tensor]], Optimizer]


def moves(make: Make, gradients: Iterable[Tensor]) -> list[Tensor]:
    """Returns each update of a float64 weight tensor that starts at 0, positive where the weight decreases."""
    weights: Tensor | None = None
    updates = []
    for gradient in gradients:
        if weights is None:
            weights = torch.zeros_like(gradient, requires_grad=True)
            optimizer = make([weights])
        before = weights.detach().clone()
        weights.grad = gradient.clone()
        optimizer.step()
        updates.append(before - weights.detach())
    return updates


def constant(value: float, steps: int) -> list[Tensor]:
    """Returns the gradient of one weight, the same in each of `steps` steps."""
    return [torch.full((1,), value, dtype=torch.float64)] * steps


def noise(steps: int, size: int = 1000, mean: float = 0.0) -> list[Tensor]:
    """Returns gradients of `size` weights in `steps` steps, independent random numbers with variance 1."""
    generator = torch.Generator().manual_seed(0)
    return [mean + torch.randn(size, dtype=torch.float64, generator=generator) for _ in range(steps)]


def rms(tensor: Tensor) -> float:
    return tensor.square().mean().sqrt().item()
