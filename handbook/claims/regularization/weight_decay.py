"""Claims of handbook/regularization.md: weight decay."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.optim import Adam, AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_model


@claim(
    "decay-time-constant",
    "At a rate of 1e-3 with λ = 0.1, weights without gradient fall to {expected[2,000 steps]:.0f} % in 2,000 steps "
    "and to {expected[10,000 steps]:.0f} % in 10,000.",
    expected={"2,000 steps": 81.9, "10,000 steps": 36.8},
    tolerance=0.05,
    unit="%",
)
def time_constant() -> Mapping[str, float]:
    """Lets AdamW step on weights of 1 whose gradient is 0."""
    weights = torch.ones(1, dtype=torch.float64, requires_grad=True)
    weights.grad = torch.zeros_like(weights)
    optimizer, left = AdamW([weights], lr=1e-3, weight_decay=0.1), {}
    for step in range(1, 10_001):
        optimizer.step()
        if step in (2_000, 10_000):
            left[f"{step:,} steps"] = 100 * weights.item()
    return left


@claim(
    "l2-is-not-decay",
    "In 1,000 steps AdamW takes 9.6 % from weights whatever the noise of their gradients; Adam with L2 "
    "{expected[Adam, 0.01]:.0f} % at a noise of 0.01 and {expected[Adam, 100]:.1f} % at 100.",
    expected={"Adam, 0.01": 73.8, "Adam, 100": 0.24, "AdamW, 0.01": 9.65, "AdamW, 100": 9.65},
    tolerance=0.3,
    unit="% shrunk",
    source="[AdamW](https://arxiv.org/abs/1711.05101)",
)
def l2_is_not_decay() -> Mapping[str, float]:
    """Steps 200 weights of 1 with λ = 0.1 at a rate of 1e-3 along gradients of pure normal noise."""
    shrunk: dict[str, float] = {}
    for name, optimizer_class in (("Adam", Adam), ("AdamW", AdamW)):
        for noise in (0.01, 100):
            torch.manual_seed(0)
            weights = torch.ones(200, dtype=torch.float64, requires_grad=True)
            optimizer = optimizer_class([weights], lr=1e-3, weight_decay=0.1)
            for _ in range(1000):
                weights.grad = noise * torch.randn(200, dtype=torch.float64)
                optimizer.step()
            shrunk[f"{name}, {noise}"] = 100 * (1 - weights.mean().item())
    return shrunk


@claim(
    "decayed-tensors",
    "p.dim() >= 2 selects {expected[tensors]} of the {expected[of]} parameter tensors of Lab 02's model, with "
    "{expected[% of the numbers]:.1f} % of its numbers.",
    expected={"tensors": 18, "of": 27, "% of the numbers": 99.86},
    tolerance=0.01,
    unit="",
)
def decayed_tensors() -> Mapping[str, float]:
    """Counts the tensors of two and more dimensions and their elements."""
    parameters = list(make_model().parameters())
    matrices = [p for p in parameters if p.dim() >= 2]
    share = sum(p.numel() for p in matrices) / sum(p.numel() for p in parameters)
    return {"tensors": len(matrices), "of": len(parameters), "% of the numbers": 100 * share}


@claim(
    "decay-below-a-norm",
    "A matrix in front of a LayerNorm times 10 leaves the output as it was and makes its gradient 10 times smaller.",
    expected={"output, largest change": 0, "gradient, times smaller": 10},
    tolerance=1e-6,
    unit="",
    source="[van Laarhoven](https://arxiv.org/abs/1706.05350)",
)
def below_a_norm() -> Mapping[str, float]:
    """Multiplies by W and by 10 W, normalizes, and differentiates the same loss by the matrix, in float64."""
    torch.manual_seed(0)
    norm = nn.LayerNorm(32, eps=0.0, dtype=torch.float64)
    x, weight, goal = torch.randn(3, 32, 32, dtype=torch.float64)
    outputs, gradients = [], []
    for scale in (1, 10):
        scaled = (scale * weight).requires_grad_()
        output = norm(x @ scaled.T)
        gradients.append(torch.autograd.grad((output * goal).sum(), scaled)[0].norm())
        outputs.append(output.detach())
    return {
        "output, largest change": (outputs[0] - outputs[1]).abs().max().item(),
        "gradient, times smaller": (gradients[0] / gradients[1]).item(),
    }
