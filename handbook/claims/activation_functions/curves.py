"""Claims of handbook/activation-functions.md: curves and their derivatives."""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from rankzero.claims.claim import claim

from .shared import CURVES, _derivative, _grid


@claim(
    "two-linears-are-one",
    "Two linear layers without an activation between them compute what one layer computes.",
    expected=0,
    tolerance=1e-13,
    unit="largest difference",
)
def two_linears() -> float:
    """Multiplies the matrices of two float64 layers and compares 1,000 outputs near 1 in size; the rest is rounding."""
    torch.manual_seed(0)
    up, down = nn.Linear(64, 256).double(), nn.Linear(256, 64).double()
    x = torch.randn(1000, 64, dtype=torch.float64)
    one = F.linear(x, down.weight @ up.weight, down.weight @ up.bias + down.bias)
    return (down(up(x)) - one).abs().max().item()


@claim(
    "xor-needs-a-bend",
    "The best linear function answers {expected[linear, error]} to every row of exclusive or; two ReLUs answer "
    "without error.",
    expected={"linear, farthest from 0.5": 0, "linear, error": 0.5, "two ReLUs, error": 0},
    tolerance=1e-6,
    unit="",
)
def exclusive_or() -> Mapping[str, float]:
    """Fits the four rows by least squares with a bias, and evaluates relu(a + b) - 2 relu(a + b - 1)."""
    x = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=torch.float64)
    y = torch.tensor([0, 1, 1, 0], dtype=torch.float64)
    rows = torch.cat([x, torch.ones(4, 1, dtype=torch.float64)], dim=1)
    linear = (rows @ torch.linalg.lstsq(rows, y[:, None]).solution)[:, 0]
    bent = F.relu(x.sum(1)) - 2 * F.relu(x.sum(1) - 1)
    return {
        "linear, farthest from 0.5": (linear - 0.5).abs().max().item(),
        "linear, error": (linear - y).abs().max().item(),
        "two ReLUs, error": (bent - y).abs().max().item(),
    }


@claim(
    "curves-largest-derivative",
    "The largest derivative of a sigmoid is {expected[sigmoid]}, of tanh, ReLU and leaky ReLU 1, of GELU "
    "{expected[GELU]}, of SiLU {expected[SiLU]:.3f}.",
    expected={"sigmoid": 0.25, "tanh": 1, "ReLU": 1, "leaky ReLU": 1, "GELU": 1.129, "SiLU": 1.1},
    tolerance=5e-4,
    unit="",
)
def largest_derivatives() -> Mapping[str, float]:
    """Differentiates each curve by autograd at 160,001 points from -8 to 8."""
    return {name: _derivative(curve, _grid()).max().item() for name, curve in CURVES.items()}


@claim(
    "curves-lowest-value",
    "GELU is lowest at -0.75, where it is -0.170; SiLU at -1.28, where it is -0.278.",
    expected={"GELU": -0.17, "GELU, at": -0.752, "SiLU": -0.278, "SiLU, at": -1.278},
    tolerance=6e-4,
    unit="",
)
def lowest() -> Mapping[str, float]:
    """Evaluates both at 160,001 points from -8 to 8."""
    lowest_points, grid = {}, _grid()
    for name in ("GELU", "SiLU"):
        values = CURVES[name](grid)
        lowest_points[name] = values.min().item()
        lowest_points[f"{name}, at"] = grid[values.argmin()].item()
    return lowest_points


@claim(
    "derivatives-at-3",
    "At 3 a sigmoid's derivative is {expected[sigmoid, 3]:.0f} % of its largest and a tanh's 1 %; at 5 the sigmoid's "
    "is {expected[sigmoid, 5]:.1f} %.",
    expected={"sigmoid, 3": 18.1, "sigmoid, 5": 2.66, "tanh, 3": 0.99},
    tolerance=0.05,
    unit="% of the derivative at 0",
)
def derivatives_at_3() -> Mapping[str, float]:
    """Differentiates by autograd."""

    def share(name: str, x: float) -> float:
        at_0, at_x = _derivative(CURVES[name], torch.tensor([0.0, x], dtype=torch.float64)).tolist()
        return 100 * at_x / at_0

    return {"sigmoid, 3": share("sigmoid", 3), "sigmoid, 5": share("sigmoid", 5), "tanh, 3": share("tanh", 3)}


@claim(
    "ten-layers-of-derivatives",
    "The root mean square of a sigmoid's derivatives at standard normal inputs is 0.212, and its tenth power 2e-7, ten "
    "to the -6.74; tanh passes about as much as GELU.",
    expected={"sigmoid": -6.74, "tanh": -1.67, "ReLU": -1.51, "GELU": -1.71, "SiLU": -2.1},
    tolerance=0.02,
    unit="powers of ten",
)
def ten_layers() -> Mapping[str, float]:
    """Draws a million inputs; the tolerance is their sampling error, tenfold."""
    torch.manual_seed(0)
    x = torch.randn(1_000_000, dtype=torch.float64)
    names = ("sigmoid", "tanh", "ReLU", "GELU", "SiLU")
    return {name: 10 * math.log10(_derivative(CURVES[name], x).square().mean().sqrt().item()) for name in names}
