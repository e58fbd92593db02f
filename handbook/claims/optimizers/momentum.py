"""Claims of handbook/optimizers.md: momentum."""

from collections.abc import Mapping

import torch
from torch.optim import SGD

from rankzero.claims.claim import claim

from .shared import constant, moves


@claim(
    "momentum-multiplies-the-rate",
    "With momentum 0.9 and a constant gradient, PyTorch's step grows to {expected[200th step]} times lr · g; with "
    "dampening 0.9 it stays at 1.",
    expected={"first step": 1, "200th step": 10, "200th, dampening 0.9": 1},
    tolerance=1e-6,
    unit="times lr · g",
)
def momentum_multiplies() -> Mapping[str, float]:
    """Makes 200 updates of one weight with gradient 1 and rate 1, with and without dampening."""
    plain = moves(lambda p: SGD(p, lr=1, momentum=0.9), constant(1, 200))
    damped = moves(lambda p: SGD(p, lr=1, momentum=0.9, dampening=0.9), constant(1, 200))
    return {"first step": plain[0].item(), "200th step": plain[-1].item(), "200th, dampening 0.9": damped[-1].item()}


@claim(
    "momentum-after-a-rate-cut",
    "After the rate is cut to a tenth, the next step of PyTorch's momentum is a tenth of the last; with the rate "
    "inside the velocity it is {expected[rate inside the velocity]} %.",
    expected={"PyTorch": 10, "rate inside the velocity": 91},
    tolerance=0.01,
    unit="% of the step before",
)
def momentum_after_a_cut() -> Mapping[str, float]:
    """Makes 200 updates with gradient 1 at rate 1 and one at 0.1: with torch, and by hand with v <- 0.9 v + lr g."""
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = SGD([weight], lr=1.0, momentum=0.9)
    steps, textbook, velocity = [], [], 0.0
    for t in range(201):
        rate = 1.0 if t < 200 else 0.1
        optimizer.param_groups[0]["lr"] = rate
        before = weight.item()
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        steps.append(before - weight.item())
        velocity = 0.9 * velocity + rate
        textbook.append(velocity)
    return {"PyTorch": 100 * steps[-1] / steps[-2], "rate inside the velocity": 100 * textbook[-1] / textbook[-2]}


@claim(
    "nesterov-is-the-look-ahead-point",
    "PyTorch's Nesterov weights are the textbook's look-ahead points, at which the textbook computes gradients.",
    expected=0,
    tolerance=1e-14,
    unit="largest distance",
)
def nesterov_look_ahead() -> float:
    """Runs 50 steps on a quadratic with curvatures 1 and 10, in float64: torch's weights against theta + 0.9 v."""
    curvature = torch.tensor([1.0, 10.0], dtype=torch.float64)
    weights = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = SGD([weights], lr=0.02, momentum=0.9, nesterov=True)
    theta, velocity, farthest = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64), 0.0
    for _ in range(50):
        weights.grad = curvature * weights.detach()
        optimizer.step()
        velocity = 0.9 * velocity - 0.02 * curvature * (theta + 0.9 * velocity)
        theta = theta + velocity
        farthest = max(farthest, (weights.detach() - (theta + 0.9 * velocity)).abs().max().item())
    return farthest
