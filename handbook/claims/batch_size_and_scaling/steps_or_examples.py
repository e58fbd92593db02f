"""Claims of handbook/batch-size-and-scaling.md: steps or examples."""

from collections.abc import Mapping

import torch
from torch import Tensor

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import next_token_loss

from .shared import LARGE_BATCH, sentences, trained

CURVATURES = 1 / torch.arange(1, 51, dtype=torch.float64)


def after_a_step(squares: Tensor, rate: float, batch_size: float) -> Tensor:
    """Mean of each weight's square after a step of SGD on linear regression with exact targets.

    Inputs are Gaussian with variances CURVATURES; their fourth moments are what the last line holds.
    """
    h, drift = CURVATURES, CURVATURES * squares
    return squares - 2 * rate * drift + rate**2 * (h * drift + (h * drift + h * drift.sum()) / batch_size)


def loss_of(squares: Tensor) -> float:
    """Mean squared error over 2."""
    return float((CURVATURES * squares).sum() / 2)


@claim(
    "best-step-by-batch-size",
    "The best step along a noisy gradient gains 1/(1 + B_noise/B) of the best step along the true one.",
    expected={"B = 1": 1, "B = 8": 1, "B = 64": 1},
    tolerance=1e-6,
    unit="of the predicted gain",
    source=f"{LARGE_BATCH}, section 2.2",
)
def best_step() -> Mapping[str, float]:
    """Searches 200,001 rates for the largest mean fall of the loss, for each batch size and without noise.

    B_noise = tr(HΣ)/(GᵀHG), Σ being the covariance of one example's gradient at the start.
    """
    start, h = torch.ones(50, dtype=torch.float64), CURVATURES
    covariance_trace = float((h * (h * h + h * h.sum())).sum())  # tr(HΣ), where every weight is 1 off
    noise_scale = covariance_trace / float((h**3).sum())

    def best_gain(batch_size: float) -> float:
        # Loss after a step is quadratic in the rate, so three rates give it at all of them.
        at = [loss_of(after_a_step(start, rate, batch_size)) for rate in (0.0, 0.5, 1.0)]
        curve, slope = 2 * (at[2] - 2 * at[1] + at[0]), 4 * at[1] - 3 * at[0] - at[2]
        rates = torch.linspace(0, 2, 200_001, dtype=torch.float64)
        return -float((slope * rates + curve * rates**2).min())

    return {f"B = {B}": best_gain(B) / best_gain(1e18) * (1 + noise_scale / B) for B in (1, 8, 64)}


def steps_to(share: float, batch_size: float) -> int:
    """Steps of SGD, at the best of 12 constant rates, until the loss is `share` of the first."""
    largest = 2 * batch_size / float(CURVATURES.sum() + (batch_size + 1) * CURVATURES.max())
    best = 10_000
    for twentieth in range(8, 20):
        squares = torch.ones(50, dtype=torch.float64)
        target, steps = share * loss_of(squares), 0
        while loss_of(squares) > target and steps < best:
            squares = after_a_step(squares, largest * twentieth / 20, batch_size)
            steps += 1
        best = min(best, steps)
    return best


@claim(
    "steps-by-batch-size",
    "Over a whole run S = S_min(1 + B_noise/B) holds within 8 % with one fitted B_noise, from B = 1 to no noise.",
    expected={"B = 1": 218, "B = 4": 62, "B = 16": 25, "B = 64": 17, "largest error, in %": 7},
    tolerance=1,
    unit="steps",
    source=f"{LARGE_BATCH}, section 2.3",
)
def steps_by_batch_size() -> Mapping[str, float]:
    """Counts the steps of linear regression to 5 % of its loss, in exact means; fits B_noise to B = 1 and 10⁹."""
    steps = {B: steps_to(0.05, B) for B in (1, 4, 16, 64, 10**9)}
    least = steps.pop(10**9)
    noise_scale = steps[1] / least - 1
    off = max(abs(least * (1 + noise_scale / B) / count - 1) for B, count in steps.items())
    return {**{f"B = {B}": count for B, count in steps.items()}, "largest error, in %": 100 * off}


@claim(
    "same-examples-or-same-steps",
    "On the same 1,280 sentences batches of 8 and 32 end alike, 128 higher; in 40 steps each, 128 ends below 32.",
    expected={"8 × 160": 1.51, "32 × 40": 1.52, "128 × 10": 2.40, "128 × 40": 1.44},
    tolerance=0.02,
    unit="nats",
)
def same_examples_or_same_steps() -> Mapping[str, float]:
    """Trains a small GPT with AdamW at 0.02 and scores it on 512 other sentences.

    The tolerance is rounding, amplified by up to 160 steps on another CPU.
    """
    held_out = sentences(512, seed=5)
    measured = {}
    for batch_size, steps in ((8, 160), (32, 40), (128, 10), (128, 40)):
        model = trained(batch_size, steps, rate=2e-2)
        with torch.no_grad():
            measured[f"{batch_size} × {steps}"] = next_token_loss(model, held_out).item()
    return measured
