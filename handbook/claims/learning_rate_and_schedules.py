"""Claims of handbook/learning-rate-and-schedules.md."""

import itertools
import math
import statistics
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, OneCycleLR, StepLR

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.counting_gpt import STEPS, excess, tiny_gpt
from rankzero.claims.toolkit.lab_model import next_token_loss
from rankzero.claims.toolkit.starters import starter
from rankzero.learn.data.synthetic_text import LOWEST_LOSS, synthetic_batches

Shape = Callable[[int], float]


# ------------------------------------------------------------------------------------------- the largest stable rate
def _largest_stable(**options: Any) -> float:
    """Largest curvature, at rate 1, at which 2,000 steps down curvature · w² / 2 end closer to 0 than they began."""
    curvature = torch.arange(0.001, 4.0, 0.001, dtype=torch.float64)
    weights = torch.ones_like(curvature).requires_grad_()
    optimizer = SGD([weights], lr=1.0, **options)
    for _ in range(2000):
        weights.grad = curvature * weights.detach()
        optimizer.step()
    return curvature[weights.detach().abs() < 0.999].max().item()


@claim(
    "largest-stable-rate",
    "Gradient descent on a quadratic converges while rate times curvature is below 2; with momentum 0.9 below 2(1 + "
    "β) = {expected[momentum 0.9]}, with Nesterov's below {expected[Nesterov 0.9]:.3f}.",
    expected={"SGD": 2, "momentum 0.9": 3.8, "Nesterov 0.9": 2 * 1.9 / 2.8},
    tolerance=0.01,
    unit="rate times curvature",
)
def largest_stable_rate() -> Mapping[str, float]:
    """Runs torch.optim.SGD at rate 1 on 4,000 quadratics side by side and takes the steepest that converged.

    The tolerance is the slowness near the edge: 2,000 steps do not settle everything below it.
    """
    return {
        "SGD": _largest_stable(),
        "momentum 0.9": _largest_stable(momentum=0.9),
        "Nesterov 0.9": _largest_stable(momentum=0.9, nesterov=True),
    }


def _floor(make: Callable[[list[Tensor]], Optimizer], batch_size: int = 1, steps: int = 2000) -> float:
    """Mean square distance from the minimum of w²/2, at rest, when gradients carry noise of variance 1 / batch_size."""
    generator = torch.Generator().manual_seed(0)
    walkers = torch.zeros(2000, dtype=torch.float64, requires_grad=True)
    optimizer = make([walkers])
    seen = []
    for step in range(steps):
        disturbance = torch.randn(2000, dtype=torch.float64, generator=generator) / math.sqrt(batch_size)
        walkers.grad = walkers.detach() + disturbance
        optimizer.step()
        if step >= steps // 2:
            seen.append(walkers.detach().square().mean().item())
    return statistics.mean(seen)


@claim(
    "noise-floor-of-a-rate",
    "With noisy gradients SGD does not reach the minimum: it stays at a mean square distance of η/(2 - η) from "
    "the minimum, 0.25, {expected[0.2]:.3f}, {expected[0.1]:.3f} and {expected[0.05]:.3f} for rates 0.4, 0.2, 0.1 "
    "and 0.05. Momentum 0.9 at 0.05 makes it 0.25.",
    expected={"0.4": 0.25, "0.2": 0.1111, "0.1": 0.0526, "0.05": 0.0256, "0.05, momentum 0.9": 0.253},
    tolerance=0.005,
    unit="",
)
def noise_floor() -> Mapping[str, float]:
    """Lets 2,000 weights walk 400 steps each on w²/2 with noise of variance 1 and averages the squares at rest."""
    distances = {str(rate): _floor(lambda p, r=rate: SGD(p, lr=r), steps=400) for rate in (0.4, 0.2, 0.1, 0.05)}  # type: ignore[misc]
    return distances | {"0.05, momentum 0.9": _floor(lambda p: SGD(p, lr=0.05, momentum=0.9), steps=1000)}


@claim(
    "rate-and-batch-at-one-noise-floor",
    "With 16 times the batch, 16 times the rate keeps SGD's distance from the minimum, and 4 times the rate Adam's.",
    expected={
        "SGD, B 1, 0.01": 5,
        "SGD, B 16, 0.16": 5.4,
        "SGD, B 16, 0.04": 1.3,
        "Adam, B 1, 0.01": 5,
        "Adam, B 16, 0.16": 18,
        "Adam, B 16, 0.04": 5,
    },
    tolerance=0.25,
    unit="thousandths, mean square distance",
)
def rate_and_batch() -> Mapping[str, float]:
    """The same walk, with the noise's variance divided by the batch; SGD's 5.4 is its η/(2 - η) no longer small."""
    found = {}
    for kind in (SGD, Adam):
        for batch, rate in ((1, 0.01), (16, 0.16), (16, 0.04)):
            found[f"{kind.__name__}, B {batch}, {rate}"] = 1000 * _floor(
                lambda p, k=kind, r=rate: k(p, lr=r),  # type: ignore[misc]
                batch,
                steps=1200,
            )
    return found


# ------------------------------------------------------------------------------------------------------------ warm-up
def _rates_used(
    make: Callable[[SGD], Any], updates: int, order: str = "optimizer scheduler", calls: int = 1
) -> tuple[list[float], list[str]]:
    """The rate of each update under a torch scheduler, stepped `calls` times per update; and torch's warnings."""
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = make(optimizer)
    rates = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(updates):
            for which in order.split():
                if which == "optimizer":
                    rates.append(float(optimizer.param_groups[0]["lr"]))
                    optimizer.step()
                else:
                    for _ in range(calls):
                        scheduler.step()
    return rates, [str(warning.message) for warning in caught]


@claim(
    "first-rate-by-convention",
    "A warm-up over 5 updates begins at 0 with step / 5, as Hugging Face's does, at 0.2 with (step + 1) / 5, and at "
    "1/3 with LinearLR's defaults, which takes no start of 0.",
    expected={"step / 5": 0, "(step + 1) / 5": 0.2, "(step + 1) / 6": 1 / 6, "LinearLR": 1 / 3, "LinearLR takes 0": 0},
    tolerance=1e-12,
    unit="of the peak rate",
)
def first_rates() -> Mapping[str, float]:
    """Reads the rate at which the first update is made; the first three through LambdaLR, as Hugging Face does."""

    def first(make: Callable[[SGD], Any]) -> float:
        return _rates_used(make, 1)[0][0]

    def takes_zero() -> bool:
        try:
            first(lambda optimizer: LinearLR(optimizer, start_factor=0.0))
        except ValueError:
            return False
        return True

    return {
        "step / 5": first(lambda optimizer: LambdaLR(optimizer, lambda step: min(1, step / 5))),
        "(step + 1) / 5": first(lambda optimizer: LambdaLR(optimizer, lambda step: min(1, (step + 1) / 5))),
        "(step + 1) / 6": first(lambda optimizer: LambdaLR(optimizer, lambda step: min(1, (step + 1) / 6))),
        "LinearLR": first(LinearLR),
        "LinearLR takes 0": int(takes_zero()),
    }


def _cosine(peak: float, horizon: int = STEPS) -> Shape:
    return lambda step: peak * 0.5 * (1 + math.cos(math.pi * step / horizon))


@claim(
    "warm-up-lets-adamw-use-a-higher-rate",
    "A tiny GPT at a peak of 0.04 ends {expected[0.04]:.2f} nats above the floor without warm-up, and "
    "{expected[0.04, 20 steps]:.2f} with 20 steps of it. Ten steps at rate 0, in which AdamW only fills its "
    "averages, do as much: {expected[0.04, ten at 0]:.2f}. At 0.01 warm-up gains nothing.",
    expected={"0.04": 0.141, "0.04, 20 steps": 0.068, "0.04, ten at 0": 0.078, "0.01": 0.1, "0.01, 20 steps": 0.13},
    tolerance=0.02,
    unit="nats per token above the floor",
)
def warm_up_and_rate() -> Mapping[str, float]:
    """Means over two seeds (at 0.01: one) of 100 steps with a cosine to 0, in float64."""

    def mean(rate: Shape, seeds: int = 2) -> float:
        return statistics.mean(excess(rate, seed=seed) for seed in range(seeds))

    high, low = _cosine(0.04), _cosine(0.01)
    return {
        "0.04": mean(high),
        "0.04, 20 steps": mean(lambda step: min(1, (step + 1) / 20) * high(step)),
        "0.04, ten at 0": mean(lambda step: high(step) if step >= 10 else 0.0),
        "0.01": mean(low, seeds=1),
        "0.01, 20 steps": mean(lambda step: min(1, (step + 1) / 20) * low(step), seeds=1),
    }


# ------------------------------------------------------------------------------------------------------------- shapes
@claim(
    "horizon-of-the-decay",
    "100 steps at a peak of 0.02 end {expected[constant]} nats above the floor at a constant rate, "
    "{expected[cosine]:.2f} with a cosine over 100 steps, {expected[for 200]:.2f} with one meant for 200 and "
    "{expected[for 400]:.2f} with one meant for 400; constant with a decay over the last 20: {expected[last 20]:.2f}.",
    expected={"constant": 0.150, "cosine": 0.068, "for 200": 0.124, "for 400": 0.144, "last 20": 0.092},
    tolerance=0.01,
    unit="nats per token above the floor",
)
def horizon() -> Mapping[str, float]:
    """Trains a tiny GPT in float64 with ten steps of warm-up and each shape after it; scores it on new text."""
    shapes: dict[str, Shape] = {
        "constant": lambda step: 1.0,
        "cosine": _cosine(1.0),
        "for 200": _cosine(1.0, horizon=200),
        "for 400": _cosine(1.0, horizon=400),
        "last 20": lambda step: min(1.0, (STEPS - step) / 20),
    }
    return {
        name: excess(lambda step, s=shape: 0.02 * min(1, (step + 1) / 10) * s(step))  # type: ignore[misc]
        for name, shape in shapes.items()
    }


@claim(
    "cosine-comes-back-up",
    "CosineAnnealingLR past its T_max climbs: at 2 T_max it is back at the peak. Stepped four times per update, it is "
    "at 0 after a quarter of the run and at the peak again after half.",
    expected={"at 100": 0, "at 150": 0.5, "at 200": 1, "4 calls, at 25": 0, "4 calls, at 50": 1},
    tolerance=1e-9,
    unit="of the peak rate",
)
def cosine_comes_back() -> Mapping[str, float]:
    """Reads the rate of each of 201 updates with T_max = 100, then with four calls of the scheduler an update."""
    once, _ = _rates_used(lambda optimizer: CosineAnnealingLR(optimizer, T_max=100), 201)
    four, _ = _rates_used(lambda optimizer: CosineAnnealingLR(optimizer, T_max=100), 51, calls=4)
    return {"at 100": once[100], "at 150": once[150], "at 200": once[200]} | {
        f"4 calls, at {step}": four[step] for step in (25, 50)
    }


@claim(
    "one-cycle-defaults",
    "OneCycleLR begins at 1/25 of the peak, peaks at 30 % of the updates, ends at 1/250,000, bends like a cosine, "
    "and moves momentum from 0.95 to {expected[least momentum]} and back.",
    expected={"first": 0.04, "peak at": 29, "last": 4e-6, "after 7": 0.172, "least momentum": 0.85},
    tolerance=0.001,
    unit="of the peak rate, or updates of 100",
)
def one_cycle() -> Mapping[str, float]:
    """Reads rates and momentum of 100 updates with max_lr 1 and defaults; a straight line would be at 0.272 after 7."""
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=1.0, momentum=0.9)
    scheduler = OneCycleLR(optimizer, max_lr=1.0, total_steps=100)
    rates, momenta = [], []
    for step in range(100):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        momenta.append(float(optimizer.param_groups[0]["momentum"]))
        optimizer.step()
        if step < 99:
            scheduler.step()
    return {
        "first": rates[0],
        "peak at": rates.index(max(rates)),
        "last": rates[-1],
        "after 7": rates[7],
        "least momentum": min(momenta),
    }


# -------------------------------------------------------------------------------------------------- where it is called
@claim(
    "scheduler-before-optimizer",
    "scheduler.step() before optimizer.step() skips the schedule's first rate, and PyTorch warns.",
    expected={"after: first rate": 1, "before: first rate": 0.5, "after: warnings": 0, "before: warnings": 1},
    unit="",
)
def scheduler_before_optimizer() -> Mapping[str, float]:
    """Halves the rate each update with StepLR, calling it after and before the optimizer; reads rates and warnings."""
    found: dict[str, float] = {}
    for name, order in (("after", "optimizer scheduler"), ("before", "scheduler optimizer")):
        rates, caught = _rates_used(lambda optimizer: StepLR(optimizer, 1, gamma=0.5), 4, order)
        found |= {f"{name}: first rate": rates[0], f"{name}: warnings": len(caught)}
    return found


@claim(
    "schedule-once-an-epoch",
    "A cosine stepped once in each of 10 epochs of 100 updates has 10 rates, falls by up to "
    "{expected[largest drop]:.0f} % of the peak at once, and trains the last 100 updates at 2.4 % of it; stepped "
    "each update it falls by {expected[each update: largest drop]:.2f} % at most.",
    expected={"rates": 10, "largest drop": 15.45, "last 100": 2.45, "each update: largest drop": 0.157},
    tolerance=0.05,
    unit="% of the peak rate, or rates",
)
def schedule_once_an_epoch() -> Mapping[str, float]:
    """Reads the rates of 1,000 updates with CosineAnnealingLR over 10 epochs, and over 1,000 updates."""
    epochs, _ = _rates_used(lambda optimizer: CosineAnnealingLR(optimizer, T_max=10), 10)
    updates, _ = _rates_used(lambda optimizer: CosineAnnealingLR(optimizer, T_max=1000), 1000)

    def drop(rates: list[float]) -> float:
        return 100 * max(a - b for a, b in itertools.pairwise(rates))

    return {
        "rates": len(set(epochs)),
        "largest drop": drop(epochs),
        "last 100": 100 * epochs[-1],
        "each update: largest drop": drop(updates),
    }


@claim(
    "groups-keep-their-ratio-or-lose-it",
    "A torch scheduler multiplies each group's own rate, so 1e-3 and 1e-4 stay {expected[LambdaLR]} to 1; a loop "
    "that writes one rate into every group makes them equal.",
    expected={"LambdaLR": 10, "loop": 1},
    tolerance=1e-9,
    unit="ratio of the rates",
)
def groups_and_ratio() -> Mapping[str, float]:
    """Makes an optimizer with two groups, halves the rate with LambdaLR, then in a loop over the groups."""
    groups = [{"params": [nn.Parameter(torch.ones(1))], "lr": lr} for lr in (1e-3, 1e-4)]
    optimizer = AdamW(groups)
    scheduler = LambdaLR(optimizer, lambda step: 0.5**step)
    optimizer.step()
    scheduler.step()
    found = {"LambdaLR": optimizer.param_groups[0]["lr"] / optimizer.param_groups[1]["lr"]}
    for group in optimizer.param_groups:
        group["lr"] = 5e-4
    return found | {"loop": optimizer.param_groups[0]["lr"] / optimizer.param_groups[1]["lr"]}


@claim(
    "longer-run-jumps-the-rate",
    "Lab 02's cosine for 600 steps is at {expected[decay over 600]} % of its peak at step 600; resumed with a decay "
    "over 1,200 it goes on at {expected[decay over 1,200]} %.",
    expected={"decay over 600": 10, "decay over 1,200": 55},
    tolerance=1e-9,
    unit="% of the peak rate",
)
def longer_run() -> Mapping[str, float]:
    """Calls the starter's learning_rate at step 600 with both horizons and no warm-up."""
    learning_rate = starter("02").learning_rate
    return {f"decay over {steps:,}": 100 * learning_rate(600, 1.0, 0, steps) for steps in (600, 1200)}


# ---------------------------------------------------------------------------------------------------------- range test
@claim(
    "range-test-against-runs",
    "A range test of 100 steps has its lowest loss at a rate of 0.03; of whole runs with warm-up and cosine at 0.003, "
    "0.01, 0.03 and 0.1, 0.03 ends lowest.",
    expected={"lowest loss at": 0.03, "0.003": 0.69, "0.01": 0.11, "0.03": 0.07, "0.1": 0.08},
    tolerance=0.015,
    unit="rate, or nats per token above the floor",
)
def range_test() -> Charted:
    """Raises the rate from 1e-4 to 1 by a factor each step; takes the middle of the 7 steps with the lowest mean loss.

    Then trains from scratch with each rate for 100 steps, ten of warm-up, in float64.
    """
    model = tiny_gpt()
    optimizer = AdamW(model.parameters())
    rates, losses = [], []
    for step, batch in enumerate(synthetic_batches(STEPS, seed=1)):
        rates.append(1e-4 * 10 ** (4 * step / STEPS))
        optimizer.param_groups[0]["lr"] = rates[-1]
        loss = next_token_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    smooth = [statistics.mean(losses[i - 3 : i + 4]) for i in range(3, 97)]
    ends: dict[str, float] = {"lowest loss at": rates[3 + smooth.index(min(smooth))]}
    for peak in (0.003, 0.01, 0.03, 0.1):
        whole = _cosine(peak)
        ends[str(peak)] = excess(lambda step, w=whole: min(1, (step + 1) / 10) * w(step))  # type: ignore[misc]
    lines = {
        "range test": [(rates[3 + i], mean, mean, mean) for i, mean in enumerate(smooth)],
        "floor": [(rate, LOWEST_LOSS, LOWEST_LOSS, LOWEST_LOSS) for rate in (rates[0], rates[-1])],
    }
    return Charted(ends, Chart("Range test of a tiny GPT", "learning rate", "loss, nats per token", lines, log="x"))


# ----------------------------------------------------------------------------------------------------------- problems
@claim(
    "learning-rate-problem-answers",
    "At 95 % of the largest stable rate for curvatures 50 and 0.5, the gentle direction needs {expected[steps]} steps "
    "to 1 %. A noise floor of 0.01 needs a rate of {expected[rate]:.4f}. A cosine to 0 spends "
    "{expected[below a fifth]:.1f} % of the run below a fifth of its peak.",
    expected={"steps": 241, "rate": 0.0198, "below a fifth": 29.52},
    tolerance=0.01,
    unit="as named",
)
def problem_answers() -> Mapping[str, float]:
    """Computes the answers from the formulas of the chapter."""
    rate = 0.95 * 2 / 50
    return {
        "steps": next(n for n in range(10_000) if (1 - rate * 0.5) ** n <= 0.01),
        "rate": 2 * 0.01 / 1.01,
        "below a fifth": 100 * (1 - math.acos(2 * 0.2 - 1) / math.pi),
    }
