"""Claims of handbook/optimizers.md: Adam."""

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer, RMSprop

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import flat
from rankzero.claims.toolkit.lab_model import text_batch, text_model, token_loss

from .shared import constant, moves, noise, rms


@claim(
    "adam-first-step-is-the-rate",
    "Adam's first step is the rate, whether the gradient is 1e-4 or 1e4; at 1e-8, the size of epsilon, it is half. "
    "RMSprop's is ten times the rate.",
    expected={"g = 1e4": 1, "g = 1": 1, "g = 1e-4": 1, "g = 1e-8": 0.5, "RMSprop, g = 1": 10},
    tolerance=2e-4,
    unit="times lr",
)
def first_step() -> Mapping[str, float]:
    """Makes one update of one weight with each gradient. The tolerance is epsilon beside 1e-4."""
    sizes = {"1e4": 1e4, "1": 1.0, "1e-4": 1e-4, "1e-8": 1e-8}
    adam = {
        f"g = {name}": moves(lambda p: Adam(p, lr=1.0), constant(size, 1))[0].item() for name, size in sizes.items()
    }
    return adam | {"RMSprop, g = 1": moves(lambda p: RMSprop(p, lr=1.0), constant(1, 1))[0].item()}


@claim(
    "adam-step-signal-and-noise",
    "Adam's mean step is the rate times mean / root mean square of the gradient: {expected[no noise]} without noise, "
    "{expected[noise 1x]} with as much noise as signal, {expected[noise 10x]:.2f} with ten times as much. Noise "
    "alone makes steps of {expected[noise alone, rms]}.",
    expected={"no noise": 1, "noise 1x": 0.71, "noise 10x": 0.1, "noise alone, rms": 0.23},
    tolerance=0.01,
    unit="times lr",
)
def signal_and_noise() -> Mapping[str, float]:
    """Gives 1,000 weights gradients of a fixed mean and standard deviation 1 (or 0), and averages 1,000 updates.

    The rms is of the last 200 updates. 0.23 is the square root of (1 - beta1) / (1 + beta1), an average's noise.
    """

    def adam(gradients: list[Tensor]) -> list[Tensor]:
        return moves(lambda p: Adam(p, lr=1.0), gradients)

    def mean(steps: list[Tensor]) -> float:
        return torch.stack(steps).mean().item()

    alone = torch.stack(adam(noise(1000))[-200:])
    return {
        "no noise": mean(adam(constant(1, 1000))),
        "noise 1x": mean(adam(noise(1000, mean=1.0))),
        "noise 10x": mean(adam(noise(1000, mean=0.1))),
        "noise alone, rms": rms(alone),
    }


@functools.cache
def updates_of_lab_02() -> dict[int, tuple[Tensor, Tensor]]:
    """Trains Lab 02's model at its rate of 1e-3 on the embedded text; step -> (weights before, update / rate)."""
    model, found = text_model(), {}
    optimizer = AdamW(model.parameters(), lr=1e-3)
    for step in range(1, 52):
        optimizer.zero_grad()
        token_loss(model, *text_batch(step - 1)).backward()
        before = flat(list(model.parameters()))
        optimizer.step()
        if step in (1, 6, 51):
            found[step] = before, (before - flat(list(model.parameters()))) / 1e-3
    return found


@claim(
    "adamw-update-over-steps",
    "The root mean square of AdamW's updates in Lab 02, divided by the rate, is {expected[step 1]:.2f} in step 1, "
    "{expected[step 6]:.2f} in step 6 and {expected[step 51]:.2f} in step 51.",
    expected={"step 1": 1.0, "step 6": 0.355, "step 51": 0.161},
    tolerance=0.01,
    unit="times lr",
)
def update_over_steps() -> Mapping[str, float]:
    """Trains Lab 02's model for 51 steps and takes the root mean square over all weights."""
    return {f"step {step}": rms(update) for step, (_, update) in updates_of_lab_02().items()}


@claim(
    "adamw-unmoved-bf16-weights",
    "In Lab 02, AdamW's update at a rate of 1e-4 leaves {expected[1e-4, step 1]:.0f} % of bf16 weights as they are in "
    "step 1, and {expected[1e-4, step 51]:.0f} % in step 51; at 1e-5 {expected[1e-5, step 1]:.0f} and "
    "{expected[1e-5, step 51]:.0f} %.",
    expected={"1e-4, step 1": 7.1, "1e-5, step 1": 73.7, "1e-4, step 51": 81.7, "1e-5, step 51": 98.1},
    tolerance=1.0,
    unit="% of weights",
)
def unmoved_bf16_weights() -> Mapping[str, float]:
    """Scales the updates of a run at 1e-3 to each rate, and rounds weights, and weights minus update, to bf16."""

    def percent(step: int, rate: str) -> float:
        before, update = updates_of_lab_02()[step]
        weights = before.bfloat16()
        return 100 * ((weights.float() - float(rate) * update).bfloat16() == weights).float().mean().item()

    return {f"{rate}, step {step}": percent(step, rate) for step in (1, 51) for rate in ("1e-4", "1e-5")}


class Uncorrected(Optimizer):
    """Adam without its bias correction."""

    def __init__(self, params: Any, lr: float, beta2: float) -> None:
        super().__init__(params, {"lr": lr, "beta2": beta2})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p] or {"m": torch.zeros_like(p), "v": torch.zeros_like(p)}
                self.state[p] = state
                state["m"].lerp_(p.grad, 0.1)
                state["v"].lerp_(p.grad**2, 1 - group["beta2"])
                p -= group["lr"] * state["m"] / (state["v"].sqrt() + 1e-8)


@claim(
    "adam-without-bias-correction",
    "Without bias correction and with a constant gradient, Adam's first step is {expected[0.999, first]} times the "
    "rate and the twelfth, the longest, {expected[0.999, longest]} times; with beta2 = 0.95 they are "
    "{expected[0.95, first]} and {expected[0.95, longest]:.2f}.",
    expected={"0.999, first": 3.16, "0.999, longest": 6.57, "0.95, first": 0.45, "0.95, longest": 1.10},
    tolerance=0.005,
    unit="times lr",
)
def without_bias_correction() -> Mapping[str, float]:
    """Makes 100 updates of one weight with gradient 1 and takes the first and the largest."""
    lengths: dict[str, float] = {}
    for beta2 in (0.999, 0.95):
        steps = [step.item() for step in moves(lambda p, b=beta2: Uncorrected(p, 1.0, b), constant(1, 100))]  # type: ignore[misc]
        lengths |= {f"{beta2}, first": steps[0], f"{beta2}, longest": max(steps)}
    return lengths


@claim(
    "adam-when-gradients-grow",
    "If gradients become 1,000 times larger and stay so, Adam's steps reach {expected[0.999]} times the rate with "
    "beta2 = 0.999, and {expected[0.95]} times with 0.95.",
    expected={"0.999": 6.4, "0.95": 1.1},
    tolerance=0.05,
    unit="times lr",
)
def when_gradients_grow() -> Mapping[str, float]:
    """Makes 3,000 updates of one weight with gradient 0.001, then 100 with gradient 1, and takes the largest."""
    gradients = constant(1e-3, 3000) + constant(1, 100)
    return {
        str(beta2): max(
            step.item()
            for step in moves(lambda p, b=beta2: Adam(p, lr=1.0, betas=(0.9, b)), gradients)  # type: ignore[misc]
        )
        for beta2 in (0.999, 0.95)
    }


@claim(
    "adam-after-one-bad-batch",
    "One batch with gradients 100 times too large makes Adam's next step {expected[0.999, next]} times as long as "
    "usual with beta2 = 0.999 and {expected[0.95, next]} times with 0.95; 200 steps later steps are "
    "{expected[0.999, later]} and {expected[0.95, later]:.1f} times as long.",
    expected={"0.999, next": 10.0, "0.999, later": 0.55, "0.95, next": 1.9, "0.95, later": 1.0},
    tolerance=0.1,
    unit="times the usual step",
)
def after_one_bad_batch() -> Charted:
    """Gives 1,000 weights gradients of noise, in one batch 100 times as large; divides rms steps by those before.

    The chart averages over 1 step up to the 20th after the bad batch and over 10 steps further on.
    """
    gradients = noise(1900)
    gradients[1400] = 100 * gradients[1400]
    lengths, lines = {}, {}
    for beta2 in (0.999, 0.95):
        steps = moves(lambda p, b=beta2: Adam(p, lr=1.0, betas=(0.9, b)), gradients)  # type: ignore[misc]
        usual = rms(torch.stack(steps[1300:1400]))
        lengths[f"{beta2}, next"] = rms(steps[1400]) / usual
        lengths[f"{beta2}, later"] = rms(torch.stack(steps[1580:1620])) / usual
        windows = [(t, t + 1) for t in range(-20, 20)] + [(t, t + 10) for t in range(20, 500, 10)]
        sizes = [rms(torch.stack(steps[1400 + first : 1400 + last])) / usual for first, last in windows]
        lines[f"β₂ = {beta2}"] = [(first, size, size, size) for (first, _), size in zip(windows, sizes, strict=True)]
    chart = Chart(
        title="Adam's steps around one batch whose gradients are 100 times too large",
        x="updates after the bad batch",
        y="length of the step, in usual steps",
        lines=lines,
        log="y",
    )
    return Charted(lengths, chart)


@claim(
    "adam-in-fp16-needs-a-larger-epsilon",
    "In fp16 Adam's default epsilon is 0, and a weight whose gradient is 0 becomes NaN; with 1e-7 it stays.",
    expected={"1e-8": 1, "1e-7": 0, "1e-8, bf16": 0},
    unit="NaN among 2 weights",
)
def epsilon_in_fp16() -> Mapping[str, float]:
    """Makes one update of two weights of 1 with gradients 0 and 1, and counts the weights that are NaN."""

    def nan_weights(dtype: torch.dtype, eps: float) -> int:
        weights = torch.ones(2, dtype=dtype, requires_grad=True)
        optimizer = Adam([weights], lr=1e-1, eps=eps)
        weights.grad = torch.tensor([0.0, 1.0], dtype=dtype)
        optimizer.step()
        return int(weights.isnan().sum())

    return {
        "1e-8": nan_weights(torch.float16, 1e-8),
        "1e-7": nan_weights(torch.float16, 1e-7),
        "1e-8, bf16": nan_weights(torch.bfloat16, 1e-8),
    }
