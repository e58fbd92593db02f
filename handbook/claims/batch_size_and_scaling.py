"""Claims of handbook/batch-size-and-scaling.md."""

from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import flat
from rankzero.claims.toolkit.lab_model import make_model, next_token_loss
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.models.gpt import GPT, GPTConfig

LARGE_BATCH = "[McCandlish et al.](https://arxiv.org/abs/1812.06162)"
V, T = 32, 16  # tokens in the vocabulary of a made-up language, and in a sentence of it


# ------------------------------------------------------------------------------------------------ a sample of gradients
def sentences(count: int, seed: int) -> Tensor:
    """Sentences of a language in which each token is followed by one of four: int64 [count, T + 1]."""
    successors = torch.randint(V, (V, 4), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(V, (count, 1), generator=generator)
    for _ in range(T):
        choice = torch.randint(4, (count,), generator=generator)
        tokens = torch.cat([tokens, successors[tokens[:, -1], choice][:, None]], dim=1)
    return tokens


def small_gpt() -> GPT:
    """A GPT of one block for that language, in float64."""
    torch.manual_seed(0)
    return GPT(GPTConfig(V, block_size=T, n_layer=1, n_head=2, hidden_dim=32)).double()


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


def squared_lengths(rows: Tensor, batch_size: int, seed: int = 1) -> Tensor:
    """|g|² of 4,000 random batches of rows: [4000]. Inner products of the rows are all that it takes."""
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(len(rows), (4000, batch_size), generator=generator)
    shares = torch.zeros(4000, len(rows), dtype=rows.dtype)
    shares.scatter_add_(1, picks, torch.full(picks.shape, 1 / batch_size, dtype=rows.dtype))
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


def trained(batch_size: int, steps: int, rate: float) -> GPT:
    """The small GPT after AdamW steps on fresh sentences."""
    model = small_gpt()
    optimizer = AdamW(model.parameters(), lr=rate)
    for batch in sentences(batch_size * steps, seed=1000).split(batch_size):
        optimizer.zero_grad()
        next_token_loss(model, batch).backward()
        optimizer.step()
    return model


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


# ---------------------------------------------------------------------------------------------------- steps or examples
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


# ----------------------------------------------------------------------------------------------------------- the device
@claim(
    "intensity-grows-with-rows",
    "A bf16 product with a 4096 × 4096 matrix does {expected[1 row]} FLOP a byte for one row, {expected[128 rows]} "
    "for 128, {expected[4096 rows]} for 4,096.",
    expected={"1 row": 1, "128 rows": 120, "342 rows": 293, "4096 rows": 1365},
    tolerance=0.5,
    unit="FLOPs a byte",
)
def intensity() -> Mapping[str, float]:
    """Counts the product's FLOPs with PyTorch's counter and the bytes of its three matrices, each moved once."""
    measured = {}
    for rows in (1, 128, 342, 4096):
        x, w = (torch.empty(n, 4096, dtype=torch.bfloat16, device="meta") for n in (rows, 4096))
        with FlopCounterMode(display=False) as counter:
            y = x @ w
        name = f"{rows} row{'s' if rows > 1 else ''}"
        measured[name] = counter.get_total_flops() / (x.nbytes + w.nbytes + y.nbytes)
    return measured


# ---------------------------------------------------------------------------------------------------- the learning rate
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

    Each example's slope is drawn from N(mean, 1) and does not depend on the weight; a batch's is their mean.
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
    "16 times the batch keeps drift and spread at 16 times the rate for SGD, at 4 for AdamW where noise rules.",
    expected={"SGD, 16: drift": 1, "SGD, 16: spread": 1, "AdamW, 4: drift": 1, "AdamW, 4: spread": 1},
    tolerance=0.08,
    unit="of what batch 1 gives",
    source="[Malladi et al.](https://arxiv.org/abs/2205.10287)",
)
def sixteen_times_the_batch() -> Mapping[str, float]:
    """Lets torch's optimizers walk on slopes of mean 0.05 and deviation 1, at batch 1 and 16, and divides.

    The tolerance is AdamW's: 100 steps at batch 16 are only ten memories of its momentum long.
    """
    measured: dict[str, float] = {}
    for name, make, factor in (("SGD, 16", sgd, 16), ("AdamW, 4", adamw, 4)):
        one, many = travel(make, 1e-3, 1, mean=0.05), travel(make, factor * 1e-3, 16, mean=0.05)
        measured |= {f"{name}: drift": many[0] / one[0], f"{name}: spread": many[1] / one[1]}
    return measured


@claim(
    "adamw-rate-where-signal-rules",
    "Where slopes agree, AdamW's step does not know the batch: 16 times the batch needs 16 times the rate.",
    expected=16,
    tolerance=0.1,
    unit="times the rate for the same way",
)
def signal_rules() -> float:
    """The same walk on slopes of mean 100 and deviation 1."""
    return travel(adamw, 1e-3, 1, mean=100.0)[0] / travel(adamw, 1e-3, 16, mean=100.0)[0]


# ----------------------------------------------------------------------------------------------------- steps and epochs
@claim(
    "tokens-never-drawn",
    "600 steps of 12 random windows of 64 draw {expected[epochs, by count]:.2f} times 418,648 tokens, and leave a "
    "third of them unseen.",
    expected={"epochs, by count": 1.10, "share never drawn": 0.33},
    tolerance=0.01,
    unit="",
)
def never_drawn() -> Mapping[str, float]:
    """Draws Lab 02's batches from the numbers 0 to 418,647 and looks which of them came."""
    tokens, seen = torch.arange(418_648), torch.zeros(418_648, dtype=torch.bool)
    drawn = 0
    for step in range(600):
        x, _ = random_batch(tokens, step=step, seed=0, batch_size=12, block_size=64)
        seen[x.flatten()] = True
        drawn += x.numel()
    return {"epochs, by count": drawn / len(tokens), "share never drawn": 1 - seen.float().mean().item()}
