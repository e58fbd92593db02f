"""Claims of handbook/errata.md, section *Optimizers and learning rates*: low rates."""

import torch
from torch import Tensor

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import off_by


def weights_moved(rate: float, steps: int) -> Tensor:
    """Returns the way of the 49 weights of a small tanh network in gradient descent on 32 points of a sine."""
    generator = torch.Generator().manual_seed(0)
    x = torch.linspace(-2, 2, 32, dtype=torch.float64)[:, None]
    start = torch.randn(49, dtype=torch.float64, generator=generator)
    weights = start.clone().requires_grad_()
    for _ in range(steps):
        hidden = (x * weights[:16] + weights[16:32]).tanh()
        loss = (hidden @ weights[32:48] / 4 + weights[48] - (3 * x[:, 0]).sin()).square().mean()
        (gradient,) = torch.autograd.grad(loss, weights)
        weights = (weights - rate * gradient).detach().requires_grad_()
    return weights.detach() - start


@claim(
    "errata-low-rate",
    "Gradient descent at a tenth of the rate, for ten times the steps, ends where it ended at the full rate, but for "
    "{expected} % of the way.",
    expected=1.08,
    unit="% of the way moved",
    tolerance=0.005,
)
def low_rate() -> float:
    """Trains a small network from the same weights with rate 0.1 for 100 steps and with 0.01 for 1,000, in fp64."""
    return 100 * off_by(weights_moved(0.01, 1000), weights_moved(0.1, 100))
