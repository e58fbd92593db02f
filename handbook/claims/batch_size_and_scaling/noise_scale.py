"""Claims of handbook/batch-size-and-scaling.md: a sample of gradients and its noise scale."""

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import flat
from rankzero.claims.toolkit.lab_model import make_model, next_token_loss
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT

from .shared import LARGE_BATCH, sentences, small_gpt, trained


def gradients(model: GPT, tokens: Tensor) -> Tensor:
    """The gradient of each sentence's own loss: [sentences, parameters]."""
    parameters = list(model.parameters())
    rows = [torch.autograd.grad(next_token_loss(model, row[None]), parameters) for row in tokens]
    return torch.stack([flat(list(row)) for row in rows])


def noise_and_signal(rows: Tensor) -> tuple[float, float]:
    """Unbiased trace of the covariance of one gradient, and squared length of the gradient behind them all."""
    n, mean = len(rows), rows.mean(0)
    trace = float((rows - mean).square().sum() / (n - 1))
    return trace, float(mean.square().sum()) - trace / n


@cache
def population() -> Tensor:
    """Gradients of 256 sentences, taken for all there is: batches are drawn from them with replacement."""
    return gradients(small_gpt(), sentences(256, seed=7))


def shares_of_rows(rows: Tensor, batch_size: int, seed: int = 1) -> Tensor:
    """Each row's share of the mean of 4,000 random batches: [4000, rows]."""
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(len(rows), (4000, batch_size), generator=generator)
    shares = torch.zeros(4000, len(rows), dtype=rows.dtype)
    return shares.scatter_add_(1, picks, torch.full(picks.shape, 1 / batch_size, dtype=rows.dtype))


def squared_lengths(rows: Tensor, batch_size: int, seed: int = 1) -> Tensor:
    """|g|² of 4,000 random batches of rows: [4000]. Inner products of the rows are all that it takes."""
    shares = shares_of_rows(rows, batch_size, seed)
    return (shares @ (rows @ rows.T) * shares).sum(1)


def mean_squared_length(rows: Tensor, batch_size: int) -> float:
    """Mean of |g|² over 4,000 random batches of rows."""
    return float(squared_lengths(rows, batch_size).mean())


def true_noise_and_signal(rows: Tensor) -> tuple[float, float]:
    """The same two for a population that is known whole, so that nothing is estimated."""
    mean = rows.mean(0)
    return float((rows - mean).square().sum(1).mean()), float(mean.square().sum())


@claim(
    "gradient-variance-falls-as-1-over-b",
    "The mean squared distance of a batch's gradient from the true one is trΣ/B.",
    expected={f"B = {batch_size}": 1 for batch_size in (1, 4, 16, 64)},
    tolerance=0.05,
    unit="times trΣ/B",
)
def variance_falls() -> Mapping[str, float]:
    """Draws 4,000 batches of each size from 256 gradients of a small GPT.

    The distance squared is |g|² less |G|², in the mean. The tolerance is the draw: 4,000 batches know it to a few %.
    """
    rows = population()
    noise, signal = true_noise_and_signal(rows)
    return {f"B = {B}": (mean_squared_length(rows, B) - signal) * B / noise for B in (1, 4, 16, 64)}


def points_of(x: Tensor, y: Tensor, count: int) -> list[tuple[float, float, float, float]]:
    """The first `count` pairs of x and y as points of a chart."""
    return [(a, b, b, b) for a, b in zip(x[:count].tolist(), y[:count].tolist(), strict=True)]


@claim(
    "gradients-of-two-weights",
    "In a model of two weights with a noise scale of 8, {expected[B = 1]} % of one-example gradients point away from "
    "the true gradient, {expected[B = 8]} % of the means of 8, and {expected[B = 64]} % of the means of 64.",
    expected={"B = 1": 32, "B = 8": 5.5, "B = 64": 0},
    tolerance=0.5,
    unit="% of the batches",
)
def gradients_of_two_weights() -> Charted:
    """Draws 200,000 examples of y = w·x + noise, takes the gradient of the squared error over 2 where w is
    (0.8, 0.6) off, and averages B of them at a time. Counts the means whose inner product with the true gradient is
    negative.

    Inputs are standard normal and the noise has variance 2.5, so trΣ is 3 + 2 · 2.5 = 8 times |G|² = 1.
    """
    generator = torch.Generator().manual_seed(0)
    true_gradient = torch.tensor([0.8, 0.6], dtype=torch.float64)
    x = torch.randn(200_000, 2, generator=generator, dtype=torch.float64)
    noise = 2.5**0.5 * torch.randn(200_000, generator=generator, dtype=torch.float64)
    each = x * (x @ true_gradient - noise)[:, None]
    lines, away = {}, {}
    for batch_size in (1, 8, 64):
        means = each.view(-1, batch_size, 2).mean(1)
        away[f"B = {batch_size}"] = 100 * float((means @ true_gradient < 0).double().mean())
        lines[f"B = {batch_size}"] = points_of(means[:, 0], means[:, 1], 100)
    lines["true gradient"] = points_of(true_gradient[:1], true_gradient[1:], 1)
    return Charted(away, Chart("Gradients of two weights", "gradient of weight 1", "gradient of weight 2", lines))


@claim(
    "batch-gradients-of-a-gpt",
    "The angle between a batch's gradient and the mean of all is {expected[B = 1]}° for one sentence of a small GPT, "
    "{expected[B = 16]}° for 16 and {expected[B = 64]}° for 64.",
    expected={"B = 1": 74, "B = 4": 60, "B = 16": 41, "B = 64": 24},
    tolerance=3,
    unit="degrees, in the median",
)
def batch_gradients_of_a_gpt() -> Charted:
    """Splits the gradients of 4,000 batches of each size into a part along the mean of all 256 and the remainder.

    The remainder is perpendicular to the mean. Both parts are in units of the mean's length.
    """
    rows = population()
    mean = rows.mean(0)
    length = mean.norm()
    lines, angles = {}, {}
    for batch_size in (1, 4, 16, 64):
        along = shares_of_rows(rows, batch_size) @ (rows @ mean) / length**2
        across = (squared_lengths(rows, batch_size) / length**2 - along**2).clamp(min=0).sqrt()
        angles[f"B = {batch_size}"] = float(torch.atan2(across, along).rad2deg().median())
        lines[f"B = {batch_size}"] = points_of(along, across, 60)
    axes = "part along the true gradient G, in |G|", "remainder, in |G|"
    return Charted(angles, Chart("Gradients of batches of a small GPT", *axes, lines))


@claim(
    "noise-scale-from-two-batches",
    "|g|² at two batch sizes gives trΣ and |G|² without bias; |g|² at a batch of 8 alone is "
    "{expected[|g|² at B = 8]} times |G|².",
    expected={"trΣ": 1, "|G|²": 1, "|g|² at B = 8": 2.6},
    tolerance=0.05,
    unit="times the true value",
    source=f"{LARGE_BATCH}, appendix A.1",
)
def two_batches() -> Mapping[str, float]:
    """Compares the estimators, fed with means over 4,000 batches of 8 and of 64, with the values of the population."""
    rows = population()
    noise, signal = true_noise_and_signal(rows)
    small, big = mean_squared_length(rows, 8), mean_squared_length(rows, 64)
    return {
        "trΣ": (small - big) / (1 / 8 - 1 / 64) / noise,
        "|G|²": (64 * big - 8 * small) / (64 - 8) / signal,
        "|g|² at B = 8": small / signal,
    }


@claim(
    "noise-scale-from-one-pair",
    "One batch of 8 and one of 64 put a noise scale of {expected[true]} between 8 and "
    "{expected[one in twenty above]:.0f}, nine times in ten.",
    expected={"true": 12.6, "one in twenty below": 8.4, "one in twenty above": 19.3},
    tolerance=0.5,
    unit="sentences",
)
def one_pair() -> Mapping[str, float]:
    """Applies the estimators to 4,000 pairs of batches one by one, and takes quantiles of the quotients."""
    rows = population()
    noise, signal = true_noise_and_signal(rows)
    small, big = squared_lengths(rows, 8, seed=1), squared_lengths(rows, 64, seed=2)
    scales = (small - big) / (1 / 8 - 1 / 64) / ((64 * big - 8 * small) / (64 - 8))
    below, above = torch.quantile(scales, torch.tensor([0.05, 0.95], dtype=scales.dtype)).tolist()
    return {"true": noise / signal, "one in twenty below": below, "one in twenty above": above}


@claim(
    "noise-scale-grows",
    "In 100 steps of training, from 3.48 nats to 1.55, the gradient noise scale of a small GPT grows {expected} times.",
    expected=4.6,
    tolerance=1,
    unit="times that of the start",
    source=LARGE_BATCH,
)
def noise_scale_grows() -> float:
    """Estimates trΣ/|G|² from 256 gradients, before training and after 100 AdamW steps of 32 sentences.

    The tolerance is the sample: other sentences and other batches gave 4.3 to 5.3.
    """
    held_out = sentences(256, seed=7)
    scales = []
    for model in (small_gpt(), trained(32, 100, rate=3e-3)):
        noise, signal = noise_and_signal(gradients(model, held_out))
        scales.append(noise / signal)
    return scales[1] / scales[0]


@claim(
    "lab-02-noise-scale",
    "In the first step of Lab 02 the gradient noise scale is {expected} sequences of 64 tokens, a third of its batch.",
    expected=4,
    tolerance=1.5,
    unit="sequences",
)
def lab_02_noise_scale() -> float:
    """Sums gradients and squared gradients of 64 sequences of the embedded text, one by one, on the untrained model.

    The tolerance is that of a sample of 64.
    """
    corpus, count = load_corpus("embedded"), 64
    model = make_model(vocab_size=corpus.vocab_size)
    x, y = random_batch(corpus.train, step=0, seed=3, batch_size=count, block_size=64)
    tokens = torch.cat([x, y[:, -1:]], dim=1)
    total, squares = torch.zeros(model.parameter_count()), 0.0
    for row in tokens:
        gradient = flat(list(torch.autograd.grad(next_token_loss(model, row[None]), list(model.parameters()))))
        total += gradient
        squares += float(gradient.square().sum())
    length = float((total / count).square().sum())
    noise = (squares - count * length) / (count - 1)
    return noise / (length - noise / count)
