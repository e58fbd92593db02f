"""Claims of handbook/activation-functions.md: dead units."""

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim

from .shared import CURVES, Curve


def _dead(before: Tensor) -> Tensor:
    """Returns the units that are off for every example, bool [units]; `before` is [examples, units]."""
    return (before <= 0).all(dim=0)


def _descend(parameters: Sequence[Tensor], loss_of: Callable[[], Tensor], steps: int, rate: float) -> None:
    optimizer = torch.optim.SGD(parameters, lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


class _OneLayer:
    """64 units on 128 examples of 8 numbers from 0 to 1, as on the page."""

    def __init__(self, curve: Curve, centered: bool) -> None:
        torch.manual_seed(0)
        self.x = torch.rand(128, 8, dtype=torch.float64)
        self.y = self.x[:, :4].sum(dim=1, keepdim=True)
        self.x = self.x - self.x.mean(dim=0) if centered else self.x
        self.up, self.down, self.curve = nn.Linear(8, 64).double(), nn.Linear(64, 1).double(), curve
        nn.init.kaiming_normal_(self.up.weight, nonlinearity="relu")
        nn.init.zeros_(self.up.bias)
        self.parameters = [*self.up.parameters(), *self.down.parameters()]

    def output(self) -> Tensor:
        return self.down(self.curve(self.up(self.x)))

    def loss(self) -> Tensor:
        return (self.output() - self.y).square().mean()

    def dead(self) -> Tensor:
        return _dead(self.up(self.x))


@claim(
    "large-steps-kill-relus",
    "Three steps at a rate of 0.2 leave {expected[after 3 steps]} of 64 ReLUs off for every example; none has a "
    "gradient or comes back in 100 small steps. {expected[at birth]} were dead at the start, because the inputs are "
    "all positive; with centered inputs none is.",
    expected={"at birth": 4, "after 3 steps": 47, "come back": 0, "gradient": 0, "centered": 0},
    unit="units of 64; size",
)
def kill_relus() -> Charted:
    """Trains the page's one-layer network with SGD and counts units off for all 128 examples.

    The chart counts them after each of 20 steps at four rates, on raw and on centered inputs.
    """
    raw, centered = _OneLayer(F.relu, centered=False), _OneLayer(F.relu, centered=True)
    born = raw.dead()
    _descend(raw.parameters, raw.loss, steps=3, rate=0.2)
    died = raw.dead()
    _descend(raw.parameters, raw.loss, steps=100, rate=0.01)
    _descend(centered.parameters, centered.loss, steps=3, rate=0.2)
    gradient = raw.up.weight.grad
    assert gradient is not None
    units = {
        "at birth": born.sum().item(),
        "after 3 steps": died.sum().item(),
        "come back": (died & ~raw.dead()).sum().item(),
        "gradient": gradient[died].abs().sum().item(),
        "centered": centered.dead().sum().item(),
    }
    lines = {
        f"{'centered' if centers else 'raw'} {rate}": _dead_by_step(rate, centers)
        for centers in (False, True)
        for rate in (0.03, 0.1, 0.2, 0.5)
    }
    return Charted(units, Chart("Dead ReLUs by step", "step", "dead units of 64", lines))


def _dead_by_step(rate: float, centered: bool) -> list[tuple[float, float, float, float]]:
    """Returns points of dead units before the first of 20 steps and after each."""
    network, points = _OneLayer(F.relu, centered), []
    for step in range(21):
        dead = network.dead().sum().item()
        points.append((float(step), dead, dead, dead))
        _descend(network.parameters, network.loss, steps=1, rate=rate)
    return points


@claim(
    "dead-units-come-back-in-depth",
    "In a second layer of 64 ReLUs, {expected[came back]} of {expected[dead after 3 large steps]} dead units come "
    "back while the first layer continues to learn.",
    expected={"dead after 3 large steps": 52, "came back": 18},
    unit="units",
)
def come_back() -> Mapping[str, float]:
    """Trains a network of two hidden layers on the page's task: 3 steps of SGD at 0.2, then 100 at 0.01."""
    torch.manual_seed(0)
    x = torch.rand(128, 8, dtype=torch.float64)
    y = x[:, :4].sum(dim=1, keepdim=True)
    first, second, out = nn.Linear(8, 64), nn.Linear(64, 64), nn.Linear(64, 1)
    for layer in (first, second):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    network = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), out).double()
    parameters = list(network.parameters())

    def loss() -> Tensor:
        return (network(x) - y).square().mean()

    dead = []
    for steps, rate in ((3, 0.2), (100, 0.01)):
        _descend(parameters, loss, steps, rate)
        dead.append(_dead(network[:3](x)))
    return {
        "dead after 3 large steps": dead[0].sum().item(),
        "came back": (dead[0] & ~dead[1]).sum().item(),
    }


@claim(
    "leaky-relu-still-learns",
    "With all 64 units off for every example a ReLU network gives one answer to all 128 examples, and no unit has a "
    "gradient; a leaky one gives 128 answers, and all units have one.",
    expected={
        "ReLU: units off": 64,
        "ReLU: answers": 1,
        "ReLU: units with a gradient": 0,
        "leaky ReLU: units off": 64,
        "leaky ReLU: answers": 128,
        "leaky ReLU: units with a gradient": 64,
    },
    unit="",
)
def still_learns() -> Mapping[str, float]:
    """Takes three steps of SGD at a rate of 1 on centered inputs, then one backward pass."""
    counts: dict[str, float] = {}
    for name in ("ReLU", "leaky ReLU"):
        network = _OneLayer(CURVES[name], centered=True)
        _descend(network.parameters, network.loss, steps=3, rate=1.0)
        network.up.weight.grad = None
        network.loss().backward()
        gradient = network.up.weight.grad
        assert gradient is not None
        counts[f"{name}: units off"] = network.dead().sum().item()
        counts[f"{name}: answers"] = len(network.output().unique())
        counts[f"{name}: units with a gradient"] = gradient.ne(0).any(dim=1).sum().item()
    return counts
