"""Claims of handbook/optimizers.md: three optimizers on one ravine."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim

STEEP = 100.0  # curvature across the ravine; along it the curvature is 1
STEPS = 50


def path(make: Callable[[list[Tensor]], Optimizer]) -> list[tuple[float, float]]:
    """Returns the points (along, across) of STEPS updates on (x² + STEEP y²) / 2, from (-1, 0.2)."""
    weights = torch.tensor([-1.0, 0.2], dtype=torch.float64, requires_grad=True)
    optimizer = make([weights])
    points = [(weights[0].item(), weights[1].item())]
    for _ in range(STEPS):
        weights.grad = weights.detach() * torch.tensor([1.0, STEEP], dtype=torch.float64)
        optimizer.step()
        points.append((weights[0].item(), weights[1].item()))
    return points


@claim(
    "paths-on-a-ravine",
    "On a ravine 100 times steeper across than along, 50 updates leave SGD at {expected[SGD]} of its first distance "
    "from the minimum, momentum 0.9 at {expected[momentum]} and Adam at {expected[Adam]}, each at its best rate.",
    expected={"SGD": 0.381, "momentum": 0.007, "Adam": 0.008},
    tolerance=0.001,
    unit="of the first distance",
)
def paths_on_a_ravine() -> Charted:
    """Tries 100 rates from 0.001 to 1 for each optimizer, keeps the path that ends nearest, in float64."""
    kinds: dict[str, Callable[[list[Tensor], float], Optimizer]] = {
        "SGD": lambda p, lr: SGD(p, lr=lr),
        "momentum": lambda p, lr: SGD(p, lr=lr, momentum=0.9),
        "Adam": lambda p, lr: Adam(p, lr=lr),
    }
    rates = [10 ** (-3 + 3 * step / 99) for step in range(100)]
    left, lines = {}, {}
    for name, kind in kinds.items():
        paths = [path(lambda p, r=rate, k=kind: k(p, r)) for rate in rates]  # type: ignore[misc]
        nearest = min(paths, key=lambda points: math.hypot(*points[-1]))
        left[name] = math.hypot(*nearest[-1]) / math.hypot(*nearest[0])
        lines[name] = [(x, y, y, y) for x, y in nearest]
    return Charted(left, Chart("Paths on a ravine", "weight along the ravine", "weight across", lines))
