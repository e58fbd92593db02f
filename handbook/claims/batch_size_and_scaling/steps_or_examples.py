"""Claims of handbook/batch-size-and-scaling.md: steps or examples."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import next_token_loss

from .shared import LARGE_BATCH, sentences, small_gpt, trained

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
        curve, linear = 2 * (at[2] - 2 * at[1] + at[0]), 4 * at[1] - 3 * at[0] - at[2]
        rates = torch.linspace(0, 2, 200_001, dtype=torch.float64)
        return -float((linear * rates + curve * rates**2).min())

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
    "Over a whole run, steps by batch size follow McCandlish's law within 8 % with one fitted noise scale, from "
    "a batch of 1 to a gradient without noise.",
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


def gpt_steps_to(target: float, batch_size: int, rate: float, most: int, seed: int) -> int:
    """Steps of AdamW until a small GPT's held-out loss is below `target`, or `most` if it is not by then."""
    model, held_out = small_gpt(), sentences(96, seed=5)
    optimizer = AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95))
    for step in range(1, most):
        optimizer.zero_grad()
        next_token_loss(model, sentences(batch_size, seed=1000 * seed + step)).backward()
        optimizer.step()
        if step % max(1, step // 32) == 0:
            with torch.no_grad():
                if next_token_loss(model, held_out).item() < target:
                    return step
    return most


def fewest_gpt_steps(batch_size: int, seed: int) -> int:
    """Fewest steps to 1.7 nats over six rates, each √2 times the one before; 400 at most."""
    most = 400
    for power in range(6):
        most = gpt_steps_to(1.7, batch_size, 4e-3 * 2 ** (power / 2), most, seed)
    return most


@claim(
    "steps-and-examples-of-a-gpt",
    "A small GPT reaches 1.7 nats in {expected[B = 2]} steps at batch 2 and in {expected[B = 128]} at batch 128, each "
    "at its best rate; McCandlish's law fits seven batch sizes with a noise scale of {expected[noise scale]}.",
    expected={
        "B = 2": 160,
        "B = 4": 90,
        "B = 8": 46,
        "B = 16": 29,
        "B = 32": 23,
        "B = 64": 18,
        "B = 128": 18,
        "fewest": 14,
        "noise scale": 19,
        "largest error of the fit, in %": 9,
    },
    tolerance=3,
    unit="steps, or sentences",
    source=f"{LARGE_BATCH}, section 2.3",
)
def steps_and_examples_of_a_gpt() -> Charted:
    """Trains the small GPT at batch sizes 2, 4, 8 … 128, six rates of AdamW each, and counts the steps to 1.7 nats.

    Each number is the median over three samples of sentences. The lowest possible loss is ln 4 = 1.386. The tolerance
    is rounding, amplified by the steps on another CPU. Fits S_min and B_noise by least squares of the logarithms.
    """
    runs = {B: sorted(fewest_gpt_steps(B, seed) for seed in (1, 2, 3)) for B in (2**power for power in range(1, 8))}
    steps = {B: middle for B, (_, middle, _) in runs.items()}
    least, scale = fitted(steps)
    points = [(float(B * middle), float(middle), float(low), float(high)) for B, (low, middle, high) in runs.items()]
    curve = [(B, least * (1 + scale / B)) for B in (2 ** (power / 2) for power in range(1, 16))]
    fit = [(B * S, S, S, S) for B, S in curve]
    off = max(abs(least * (1 + scale / B) / S - 1) for B, S in steps.items())
    value = {**{f"B = {B}": float(S) for B, S in steps.items()}, "fewest": least, "noise scale": scale}
    return Charted(
        value | {"largest error of the fit, in %": 100 * off},
        Chart("Steps and sentences to 1.7 nats", "sentences", "steps", {"measured": points, "fit": fit}, "xy"),
    )


def fitted(steps: Mapping[int, int]) -> tuple[float, float]:
    """S_min and B_noise for which S_min(1 + B_noise/B) is closest to the steps by batch size, in relative terms."""
    sizes = torch.tensor(list(steps), dtype=torch.float64)
    logs = torch.tensor(list(steps.values()), dtype=torch.float64).log()
    scales = torch.linspace(1, 100, 9901, dtype=torch.float64)
    shapes = (1 + scales[:, None] / sizes).log()
    least = (logs - shapes).mean(1)
    best = int((logs - shapes - least[:, None]).square().sum(1).argmin())
    return float(least[best].exp()), float(scales[best])


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


@claim(
    "batch-size-problem-answers",
    "Numbers in the answers to the chapter's problems.",
    expected={
        "saves 10 %: batch / noise scale": 4,
        "fastest batch, of 1, 2, 4 …": 128,
        "points away, in %": 7.9,
        "largest rate × curvature, in %": 1.93,
    },
    tolerance=0.05,
    unit="see the problem",
)
def problem_answers() -> Mapping[str, float]:
    """Finds each number by search or by PyTorch: none is taken from the formula that the answer derives."""
    ratios = torch.linspace(0.01, 10, 100_000, dtype=torch.float64)
    saved = 1 - (1 + 1 / (2 * ratios)) / (1 + 1 / ratios)
    times = {B: (1 + 1000 / B) * B * (1 + 16 / B) for B in (2**power for power in range(15))}
    away = torch.special.ndtr(torch.tensor(-(2**0.5), dtype=torch.float64))
    products = torch.linspace(0.001, 0.1, 100_000, dtype=torch.float64)
    off = ((1 - products) ** 8 - (1 - 8 * products)).abs()
    return {
        "saves 10 %: batch / noise scale": float(ratios[saved >= 0.1].max()),
        "fastest batch, of 1, 2, 4 …": float(min(times, key=times.__getitem__)),
        "points away, in %": 100 * float(away),
        "largest rate × curvature, in %": 100 * float(products[off <= 0.01].max()),
    }
