"""Claims of handbook/regularization.md: targets, norms and noise."""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.claims.claim import claim


@claim(
    "smoothed-floors",
    "With label smoothing 0.1 no model gets below {expected[3]} nats with 3 classes, {expected[16]} with 16, "
    "{expected[50,257]} with 50,257.",
    expected={"3": 0.291, "16": 0.565, "50,257": 1.408},
    tolerance=6e-4,
    unit="nats",
)
def smoothed_floors() -> Mapping[str, float]:
    """Takes PyTorch's smoothed loss where its gradient is 0, and checks that: no entry above 1e-9."""
    floors = {}
    for classes in (3, 16, 50_257):
        target = torch.full((1, classes), 0.1 / classes, dtype=torch.float64)
        target[0, 0] += 0.9
        logits = target.log().requires_grad_()
        loss = F.cross_entropy(logits, torch.tensor([0]), label_smoothing=0.1)
        (gradient,) = torch.autograd.grad(loss, logits)
        floors[f"{classes:,}"] = loss.item() if gradient.abs().max() < 1e-9 else math.nan
    return floors


@claim(
    "batchnorm-leaks",
    "Under BatchNorm the loss of one example has a gradient on all {expected[BatchNorm1d]} others of its batch; "
    "under LayerNorm and RMSNorm on none.",
    expected={"BatchNorm1d": 3, "LayerNorm": 0, "RMSNorm": 0},
    unit="other examples",
)
def batchnorm_leaks() -> Mapping[str, float]:
    """Differentiates a weighted sum of example 0's outputs by all four inputs."""
    reached: dict[str, float] = {}
    for norm in (nn.BatchNorm1d(8), nn.LayerNorm(8), nn.RMSNorm(8)):
        torch.manual_seed(0)
        x = torch.randn(4, 8, requires_grad=True)
        (gradient,) = torch.autograd.grad((norm(x)[0] * torch.arange(8)).sum(), x)
        reached[type(norm).__name__] = gradient[1:].ne(0).any(dim=1).sum().item()
    return reached


@claim(
    "batchnorm-two-functions",
    "In train and eval mode BatchNorm's outputs differ by {expected[batch of 4]} standard deviations on batches of "
    "4, {expected[batch of 256]} on 256.",
    expected={"batch of 4": 0.53, "batch of 256": 0.08},
    tolerance=0.05,
    unit="standard deviations",
)
def two_functions() -> Mapping[str, float]:
    """Trains the running averages on 300 random batches, then takes the root mean square difference on one batch."""
    apart = {}
    for size in (4, 256):
        torch.manual_seed(0)
        norm = nn.BatchNorm1d(8, dtype=torch.float64)
        rows = torch.randn(4096, 8, dtype=torch.float64) * 3 + 5
        for _ in range(300):
            norm(rows[torch.randint(4096, (size,))])
        train, batch = norm(rows[:size]), rows[:size]
        apart[f"batch of {size}"] = (train - norm.eval()(batch)).square().mean().sqrt().item()
    return apart


@claim(
    "stochastic-depth",
    "With 54 residual blocks and probabilities to be dropped that rise evenly to one half, {expected} run on average.",
    expected=40.25,
    tolerance=0.3,
    unit="blocks",
    source="[Huang et al.](https://arxiv.org/abs/1603.09382), section 3",
)
def stochastic_depth() -> float:
    """Sends 500 inputs one by one through 54 residual blocks that are skipped at random, and counts those that ran.

    The tolerance is two standard errors.
    """
    torch.manual_seed(0)
    blocks, ran = [nn.Linear(4, 4) for _ in range(54)], 0

    def count(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        nonlocal ran
        ran += 1

    for block in blocks:
        block.register_forward_hook(count)
    with torch.no_grad():
        for _ in range(500):
            x = torch.randn(4)
            for depth, block in enumerate(blocks, start=1):
                if torch.rand(()) >= 0.5 * depth / len(blocks):
                    x = x + block(x)
    return ran / 500


@claim(
    "average-half-life",
    "An average of weights has taken in half of a jump after {expected[0.9]}, {expected[0.99]} and {expected[0.999]} "
    "steps with β = 0.9, 0.99 and 0.999: ln 2 / (1 - β).",
    expected={"0.9": 7, "0.99": 69, "0.999": 693},
    unit="steps",
)
def half_life() -> Mapping[str, float]:
    """Feeds PyTorch's averaged model a weight that jumped from 0 to 1 and counts steps until it is at one half."""
    found = {}
    for beta in (0.9, 0.99, 0.999):
        model = nn.Linear(1, 1, bias=False, dtype=torch.float64)
        model.weight.data.zero_()
        average_fn = torch.optim.swa_utils.get_ema_multi_avg_fn(beta)
        averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=average_fn)
        averaged.update_parameters(model)  # the first update copies
        model.weight.data.fill_(1)
        steps, (slow,) = 0, averaged.module.parameters()
        while slow.item() < 0.5:
            averaged.update_parameters(model)
            steps += 1
        found[f"{beta}"] = steps
    return found


@claim(
    "average-quiets-noise",
    "Of noise that is independent from step to step an average with β = 0.9 leaves {expected:.1f} % of the variance: "
    "(1 - β) / (1 + β).",
    expected=5.26,
    tolerance=0.2,
    unit="% of the variance",
)
def quiets_noise() -> float:
    """Averages 200 normal numbers in each of 20,000 columns and takes the variance over the columns."""
    torch.manual_seed(0)
    average = torch.zeros(20_000, dtype=torch.float64)
    for _ in range(200):
        average.lerp_(torch.randn(20_000, dtype=torch.float64), 0.1)
    return 100 * average.var().item()
