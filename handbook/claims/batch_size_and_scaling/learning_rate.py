"""Claims of handbook/batch-size-and-scaling.md: the learning rate."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

from rankzero.claims.claim import claim


@claim(
    "eight-steps-or-one",
    "On a quadratic 8 SGD steps leave (1 − ηh)⁸ of the way, one at 8 times the rate 1 − 8ηh: near if ηh is small.",
    expected={
        "0.01: eight": 0.92,
        "0.01: one": 0.92,
        "0.1: eight": 0.43,
        "0.1: one": 0.2,
        "0.3: eight": 0.06,
        "0.3: one": -1.4,
    },
    tolerance=0.005,
    unit="of the way left",
)
def eight_steps_or_one() -> Mapping[str, float]:
    """Runs SGD on x²/2 from 1: eight steps, and one at 8 times the rate."""

    def left(rate: float, steps: int) -> float:
        x = torch.ones(1, requires_grad=True, dtype=torch.float64)
        optimizer = SGD([x], lr=rate)
        for _ in range(steps):
            optimizer.zero_grad()
            (x.square().sum() / 2).backward()
            optimizer.step()
        return x.item()

    measured: dict[str, float] = {}
    for rate in (0.01, 0.1, 0.3):
        measured |= {f"{rate}: eight": left(rate, 8), f"{rate}: one": left(8 * rate, 1)}
    return measured


Make = Callable[[Tensor, float], Optimizer]


def travel(make: Make, rate: float, batch_size: int, mean: float) -> tuple[float, float]:
    """Drift and spread of 4,000 weights over 1,600 examples, after as many to settle.

    Each example's gradient is drawn from N(mean, 1) and does not depend on the weight; a batch's is their mean.
    """
    generator = torch.Generator().manual_seed(0)
    weights = torch.zeros(4000, dtype=torch.float64, requires_grad=True)
    optimizer, start = make(weights, rate), weights.detach().clone()
    for step in range(3200 // batch_size):
        if step == 1600 // batch_size:
            start = weights.detach().clone()
        noise = torch.randn(4000, generator=generator, dtype=torch.float64) / batch_size**0.5
        weights.grad = mean + noise
        optimizer.step()
    moved = start - weights.detach()
    return moved.mean().item(), moved.std().item()


def sgd(weights: Tensor, rate: float) -> Optimizer:
    """Without momentum."""
    return SGD([weights], lr=rate)


def adamw(weights: Tensor, rate: float) -> Optimizer:
    """Without decay, and with an average of squares short enough to settle here."""
    return AdamW([weights], lr=rate, betas=(0.9, 0.99), weight_decay=0.0)


@claim(
    "sixteen-times-the-batch",
    "16 times the batch keeps drift and spread at 16 times the rate for SGD, and at 4 times the rate for AdamW where "
    "noise dominates.",
    expected={"SGD, 16: drift": 1, "SGD, 16: spread": 1, "AdamW, 4: drift": 1, "AdamW, 4: spread": 1},
    tolerance=0.08,
    unit="of what batch 1 gives",
    source="[Malladi et al.](https://arxiv.org/abs/2205.10287)",
)
def sixteen_times_the_batch() -> Mapping[str, float]:
    """Lets torch's optimizers walk on random gradients of mean 0.05 and deviation 1, at batch 1 and 16, and divides.

    The tolerance is AdamW's: 100 steps at batch 16 are only ten times the memory of its momentum.
    """
    measured: dict[str, float] = {}
    for name, make, factor in (("SGD, 16", sgd, 16), ("AdamW, 4", adamw, 4)):
        one, many = travel(make, 1e-3, 1, mean=0.05), travel(make, factor * 1e-3, 16, mean=0.05)
        measured |= {f"{name}: drift": many[0] / one[0], f"{name}: spread": many[1] / one[1]}
    return measured


@claim(
    "adamw-rate-where-signal-rules",
    "Where gradients agree, AdamW's step does not depend on the batch: 16 times the batch needs 16 times the rate.",
    expected=16,
    tolerance=0.1,
    unit="times the rate for the same way",
)
def signal_rules() -> float:
    """The same walk on gradients of mean 100 and deviation 1."""
    return travel(adamw, 1e-3, 1, mean=100.0)[0] / travel(adamw, 1e-3, 16, mean=100.0)[0]
