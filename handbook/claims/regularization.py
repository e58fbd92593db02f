"""Claims of handbook/regularization.md."""

import copy
import functools
import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, AdamW
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model
from rankzero.learn.models.gpt import GPT, Block, GPTConfig

V, T = 16, 16  # letters of the source; predictions a line
STEPS = 80


# ----------------------------------------------------------------------------------------------- the page's experiment
def _source() -> Tensor:
    """What follows each letter, [V, V] probabilities."""
    generator = torch.Generator().manual_seed(0)
    return (1.5 * torch.randn(V, V, generator=generator, dtype=torch.float64)).softmax(-1)


def _write(lines: int, seed: int) -> Tensor:
    """Lines of T + 1 letters from the source, int64 [lines, T + 1]."""
    draws = torch.rand(T + 1, lines, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    follow, letters = _source(), [(V * draws[0]).long()]
    for draw in draws[1:]:
        letters.append((follow[letters[-1]].cumsum(-1) < draw[:, None]).sum(-1).clamp(max=V - 1))
    return torch.stack(letters, dim=1)


def _loss(model: nn.Module, text: Tensor, smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten(), label_smoothing=smoothing)


@torch.no_grad()
def _score(model: nn.Module, text: Tensor) -> float:
    """The plain loss in eval mode, in nats; the model is left in train mode."""
    model.eval()
    loss = _loss(model, text).item()
    model.train()
    return loss


def _model(dropout: float = 0.0) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(V, block_size=T, n_layer=1, n_head=2, hidden_dim=32, dropout=dropout)).double()


class _Run:
    """80 steps of 32 lines with AdamW at 5e-3, as on the page; scores in nats, and what else happened."""

    def __init__(
        self,
        lines: int = 32,
        decay: float = 0.0,
        dropout: float = 0.0,
        smoothing: float = 0.0,
        clip: float = math.inf,
    ) -> None:
        text, validation, model = _write(lines, seed=1), _write(128, seed=2), _model(dropout)
        average, self.clipped = copy.deepcopy(model), 0
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
        optimizer = AdamW(groups, lr=5e-3)
        self.train: dict[int, float] = {}
        self.val: dict[int, float] = {}
        for step in range(STEPS + 1):
            batch = text[torch.arange(32 * step, 32 * step + 32) % lines]
            if step % 5 == 0:
                self.train[step], self.val[step] = _score(model, batch), _score(model, validation)
            if step == STEPS:
                break
            optimizer.zero_grad()
            _loss(model, batch, smoothing).backward()
            self.clipped += nn.utils.clip_grad_norm_(model.parameters(), clip).item() > clip
            optimizer.step()
            for slow, weight in zip(average.parameters(), model.parameters(), strict=True):
                slow.data.lerp_(weight.data, 0.1)  # an average with β = 0.9, which training does not see
        self.best, self.end = min(self.val.values()), self.val[STEPS]
        self.averaged = _score(average, validation)


_run = functools.cache(_Run)  # several claims look at the same run


@claim(
    "two-curves",
    "On 512 predictions of 16 letters a GPT of {expected[parameters]} parameters is best at step "
    "{expected[best at step]}, with {expected[best]:.2f} nats on new text, and ends at {expected[train end]} on the "
    "old and {expected[end]} on the new; guessing gives {expected[guessing]}, the source itself {expected[source]}.",
    expected={
        "parameters": 13_408,
        "guessing": 2.77,
        "source": 2.03,
        "best": 2.40,
        "best at step": 15,
        "train end": 0.15,
        "end": 4.55,
    },
    tolerance=0.03,
    unit="nats",
)
def two_curves() -> Mapping[str, float]:
    """Trains the page's model in float64, and scores 128 new lines every 5 steps, also with the source's own table.

    The tolerance is for machines that add in another order: 80 steps amplify that.
    """
    run, new = _run(), _write(128, seed=2)
    guess = F.cross_entropy(torch.zeros(1, V), torch.tensor([0])).item()
    return {
        "parameters": _model().parameter_count(),
        "guessing": guess,
        "source": -_source()[new[:, :-1], new[:, 1:]].log().mean().item(),
        "best": run.best,
        "best at step": min(run.val, key=lambda step: run.val[step]),
        "train end": run.train[STEPS],
        "end": run.end,
    }


@claim(
    "gap-grows-while-validation-falls",
    "From step 5 to 15 the gap grows from {expected[gap, step 5]} to {expected[gap, step 15]} nats while validation "
    "falls from {expected[validation, step 5]} to {expected[validation, step 15]:.2f}.",
    expected={"gap, step 5": 0.15, "gap, step 15": 0.48, "validation, step 5": 2.53, "validation, step 15": 2.40},
    tolerance=0.02,
    unit="nats",
)
def gap_grows() -> Mapping[str, float]:
    """Reads both curves of the same run."""
    run = _run()
    return {f"gap, step {step}": run.val[step] - run.train[step] for step in (5, 15)} | {
        f"validation, step {step}": run.val[step] for step in (5, 15)
    }


@claim(
    "regularizers-and-the-end",
    "After 80 steps validation is lower by {expected[decay 5]} nats with weight decay 5, {expected[dropout 0.2]} "
    "with dropout 0.2, {expected[smoothing 0.1]} with label smoothing 0.1, and by less than 0.1 with weight decay "
    "0.1.",
    expected={"decay 5": 1.7, "dropout 0.2": 1.6, "smoothing 0.1": 0.8, "decay 0.1": 0.05},
    tolerance=0.15,
    unit="nats lower",
)
def the_end() -> Mapping[str, float]:
    """Repeats the run with one change at a time. The tolerance allows other dropout masks and rounding."""
    end = _run().end
    changed = {
        "decay 5": _run(decay=5.0),
        "dropout 0.2": _run(dropout=0.2),
        "smoothing 0.1": _run(smoothing=0.1),
        "decay 0.1": _run(decay=0.1),
    }
    return {name: end - run.end for name, run in changed.items()}


@claim(
    "text-moves-the-best",
    "The best validation loss moves by at most 0.04 nats with decay 5, dropout or smoothing, by {expected[4 times]} "
    "with 4 times the text and by {expected[16 times]} with 16 times.",
    expected={"decay 5": 0.033, "dropout 0.2": 0, "smoothing 0.1": 0.02, "4 times": 0.21, "16 times": 0.32},
    tolerance=0.01,
    unit="nats lower",
)
def the_best() -> Mapping[str, float]:
    """Takes the lowest of the scores of each run, one every 5 steps."""
    best = _run().best
    changed = {
        "decay 5": _run(decay=5.0),
        "dropout 0.2": _run(dropout=0.2),
        "smoothing 0.1": _run(smoothing=0.1),
        "4 times": _run(lines=128),
        "16 times": _run(lines=512),
    }
    return {name: best - run.best for name, run in changed.items()}


@claim(
    "clipping-does-not-regularize",
    "Clipped at 0.05 in each of {expected[clipped steps]} steps, the run ends within 0.1 nats of the one without, "
    "far above guessing.",
    expected={"clipped steps": 80, "end, clipped": 4.47, "end": 4.55},
    tolerance=0.05,
    unit="steps; nats",
)
def clipping() -> Mapping[str, float]:
    """Trains with and without clip_grad_norm_ and counts the steps whose norm was above the limit."""
    clipped, free = _run(clip=0.05), _run()
    return {"clipped steps": clipped.clipped, "end, clipped": clipped.end, "end": free.end}


@claim(
    "fresh-text-has-no-gap",
    "With new lines in every step training and validation end within 0.1 nats of each other, and dropout 0.2 raises "
    "validation by {expected[dropout costs]:.2f}.",
    expected={"gap": -0.06, "dropout costs": 0.013},
    tolerance=0.01,
    unit="nats",
)
def fresh_text() -> Mapping[str, float]:
    """Trains on 81 batches of 32 lines, each seen once; the next batch is the training score."""
    lines = 32 * (STEPS + 1)
    plain, dropped = _run(lines=lines), _run(lines=lines, dropout=0.2)
    return {"gap": plain.end - plain.train[STEPS], "dropout costs": dropped.end - plain.end}


@claim(
    "average-is-no-cure",
    "The average of weights with β = 0.9 is {expected[fresh text]} nats better than the weights where text is new in "
    "each step, and still worse than guessing where the run has overfitted.",
    expected={"fresh text": 0.014, "overfitted, above guessing": 1.4},
    tolerance=0.02,
    unit="nats",
)
def no_cure() -> Mapping[str, float]:
    """Keeps the average beside both runs and scores it at the end. Less guessing's ln 16 = 2.773 in the second."""
    fresh, old = _run(lines=32 * (STEPS + 1)), _run()
    guess = F.cross_entropy(torch.zeros(1, V), torch.tensor([0])).item()
    return {"fresh text": fresh.end - fresh.averaged, "overfitted, above guessing": old.averaged - guess}


@claim(
    "early-stopping",
    "With a patience of 3 evaluations, one every 5 steps, the run stops at step {expected[stopped at]} of 80 and "
    "keeps step {expected[kept]}.",
    expected={"stopped at": 30, "kept": 15},
    unit="step",
)
def early_stopping() -> Mapping[str, float]:
    """Walks along the run's validation scores."""
    best, kept, waited = math.inf, 0, 0
    for step, score in _run().val.items():
        best, kept, waited = (score, step, 0) if score < best else (best, kept, waited + 1)
        if waited == 3:
            return {"stopped at": step, "kept": kept}
    return {"stopped at": STEPS, "kept": kept}


# ------------------------------------------------------------------------------------------------------- weight decay
@claim(
    "decay-time-constant",
    "At a rate of 1e-3 with λ = 0.1, weights without gradient fall to {expected[2,000 steps]:.0f} % in 2,000 steps "
    "and to {expected[10,000 steps]:.0f} % in 10,000.",
    expected={"2,000 steps": 81.9, "10,000 steps": 36.8},
    tolerance=0.05,
    unit="%",
)
def time_constant() -> Mapping[str, float]:
    """Lets AdamW step on weights of 1 whose gradient is 0."""
    weights = torch.ones(1, dtype=torch.float64, requires_grad=True)
    weights.grad = torch.zeros_like(weights)
    optimizer, left = AdamW([weights], lr=1e-3, weight_decay=0.1), {}
    for step in range(1, 10_001):
        optimizer.step()
        if step in (2_000, 10_000):
            left[f"{step:,} steps"] = 100 * weights.item()
    return left


@claim(
    "l2-is-not-decay",
    "In 1,000 steps AdamW takes 9.6 % from weights whatever the noise of their gradients; Adam with L2 "
    "{expected[Adam, 0.01]:.0f} % at a noise of 0.01 and {expected[Adam, 100]:.1f} % at 100.",
    expected={"Adam, 0.01": 73.8, "Adam, 100": 0.24, "AdamW, 0.01": 9.65, "AdamW, 100": 9.65},
    tolerance=0.3,
    unit="% shrunk",
    source="[AdamW](https://arxiv.org/abs/1711.05101)",
)
def l2_is_not_decay() -> Mapping[str, float]:
    """Steps 200 weights of 1 with λ = 0.1 at a rate of 1e-3 along gradients of pure normal noise."""
    shrunk: dict[str, float] = {}
    for name, optimizer_class in (("Adam", Adam), ("AdamW", AdamW)):
        for noise in (0.01, 100):
            torch.manual_seed(0)
            weights = torch.ones(200, dtype=torch.float64, requires_grad=True)
            optimizer = optimizer_class([weights], lr=1e-3, weight_decay=0.1)
            for _ in range(1000):
                weights.grad = noise * torch.randn(200, dtype=torch.float64)
                optimizer.step()
            shrunk[f"{name}, {noise}"] = 100 * (1 - weights.mean().item())
    return shrunk


@claim(
    "decayed-tensors",
    "p.dim() >= 2 selects {expected[tensors]} of the {expected[of]} parameter tensors of Lab 02's model, with "
    "{expected[% of the numbers]:.1f} % of its numbers.",
    expected={"tensors": 18, "of": 27, "% of the numbers": 99.86},
    tolerance=0.01,
    unit="",
)
def decayed_tensors() -> Mapping[str, float]:
    """Counts the tensors of two and more dimensions and their elements."""
    parameters = list(make_model().parameters())
    matrices = [p for p in parameters if p.dim() >= 2]
    share = sum(p.numel() for p in matrices) / sum(p.numel() for p in parameters)
    return {"tensors": len(matrices), "of": len(parameters), "% of the numbers": 100 * share}


@claim(
    "decay-below-a-norm",
    "A matrix in front of a LayerNorm times 10 leaves the output as it was and makes its gradient 10 times smaller.",
    expected={"output, largest change": 0, "gradient, times smaller": 10},
    tolerance=1e-6,
    unit="",
    source="[van Laarhoven](https://arxiv.org/abs/1706.05350)",
)
def below_a_norm() -> Mapping[str, float]:
    """Multiplies by W and by 10 W, normalizes, and differentiates the same loss by the matrix, in float64."""
    torch.manual_seed(0)
    norm = nn.LayerNorm(32, eps=0.0, dtype=torch.float64)
    x, weight, goal = torch.randn(3, 32, 32, dtype=torch.float64)
    outputs, gradients = [], []
    for scale in (1, 10):
        scaled = (scale * weight).requires_grad_()
        output = norm(x @ scaled.T)
        gradients.append(torch.autograd.grad((output * goal).sum(), scaled)[0].norm())
        outputs.append(output.detach())
    return {
        "output, largest change": (outputs[0] - outputs[1]).abs().max().item(),
        "gradient, times smaller": (gradients[0] / gradients[1]).item(),
    }


# ------------------------------------------------------------------------------------------------------------ dropout
@claim(
    "dropout-keeps-the-mean",
    "Dropout of 0.2 keeps the mean of ones at 1, gives them a variance of p / (1 - p) = {expected[variance]}, and "
    "does nothing in eval mode.",
    expected={"mean": 1, "variance": 0.25, "changed in eval mode": 0},
    tolerance=0.002,
    unit="",
)
def keeps_the_mean() -> Mapping[str, float]:
    """Drops from a million ones; the tolerance is four standard errors."""
    torch.manual_seed(0)
    ones, layer = torch.ones(1_000_000, dtype=torch.float64), nn.Dropout(0.2)
    dropped = layer(ones)
    changed = layer.eval()(ones).ne(ones).sum().item()
    return {"mean": dropped.mean().item(), "variance": dropped.var().item(), "changed in eval mode": changed}


class _Draws(TorchDispatchMode):
    """Counts operations that draw a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += any(word in str(func) for word in ("bernoulli", "native_dropout"))
        return func(*args, **(kwargs or {}))


@claim(
    "dropout-places",
    "A GPT of four layers drops at {expected[train mode]} places: 1 + 3L; in eval mode at none.",
    expected={"train mode": 13, "eval mode": 0},
    unit="masks drawn",
)
def dropout_places() -> Mapping[str, float]:
    """Counts the random masks of one forward pass of Lab 02's model with dropout 0.1."""
    model, counts = make_model(dropout=0.1), {}
    for name, training in (("train mode", True), ("eval mode", False)):
        with _Draws() as draws:
            model.train(training)(make_batch(2, 16)[0])
        counts[name] = draws.count
    return counts


@claim(
    "forgotten-eval",
    "After 100 steps with dropout 0.2, train mode makes the loss {expected[training text]} nats worse on the "
    "training text and 0.1 better on new text.",
    expected={"training text": 0.4, "new text": -0.1},
    tolerance=0.08,
    unit="nats worse",
)
def forgotten_eval() -> Mapping[str, float]:
    """Scores the trained model in both modes, train mode with the mean of ten draws."""
    text, model = _write(32, seed=1), _model(dropout=0.2)
    optimizer = AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(100):
        optimizer.zero_grad()
        _loss(model, text).backward()
        optimizer.step()
    worse = {}
    for name, part in (("training text", text), ("new text", _write(128, seed=2))):
        exact = _score(model, part)
        with torch.no_grad():
            worse[name] = sum(_loss(model, part).item() for _ in range(10)) / 10 - exact
    return worse


@claim(
    "dropout-breaks-accumulation",
    "The gradient of one batch of 8 lines and that of two of 4 are equal without dropout and {expected[dropout 0.2]} "
    "% apart with 0.2.",
    expected={"dropout 0": 0, "dropout 0.2": 43},
    tolerance=5,
    unit="% of the length",
)
def breaks_accumulation() -> Mapping[str, float]:
    """Seeds alike, runs backward on one batch and on halves of it, and divides the length of the difference.

    The tolerance allows other masks on another machine.
    """

    def gradient(parts: int, dropout: float) -> Tensor:
        model, text = _model(dropout), _write(8, seed=1)
        torch.manual_seed(0)
        for part in text.chunk(parts):
            (_loss(model, part) / parts).backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    apart = {}
    for dropout in (0, 0.2):
        whole, halves = gradient(1, dropout), gradient(2, dropout)
        apart[f"dropout {dropout}"] = 100 * ((whole - halves).norm() / whole.norm()).item()
    return apart


@claim(
    "checkpoint-replays-dropout",
    "A recomputed block with dropout 0.2 gives the same gradient bit for bit; without the saved random state one of "
    "its matrices' is {expected[state not kept]} % off.",
    expected={"state kept": 0, "state not kept": 41},
    tolerance=5,
    unit="% of the length",
)
def replays_dropout() -> Mapping[str, float]:
    """Runs a block plain and checkpointed, with preserve_rng_state on and off, and compares mlp.up's gradients.

    The tolerance allows other masks on another machine; with the state kept the difference measured is 0.
    """

    def gradient(keep: bool | None) -> Tensor:
        block = _model(dropout=0.2).blocks[0]
        assert isinstance(block, Block)
        torch.manual_seed(1)
        x = torch.randn(4, T, 32, dtype=torch.float64, requires_grad=True)
        output = block(x) if keep is None else checkpoint(block, x, use_reentrant=False, preserve_rng_state=keep)
        output.square().sum().backward()
        assert block.mlp.up.weight.grad is not None
        return block.mlp.up.weight.grad

    plain = gradient(None)
    return {
        name: 100 * ((gradient(keep) - plain).norm() / plain.norm()).item()
        for name, keep in (("state kept", True), ("state not kept", False))
    }


# ------------------------------------------------------------------------------------------------ targets, norms, noise
@claim(
    "smoothed-floors",
    "With label smoothing 0.1 no model gets below {expected[3]} nats with 3 classes, {expected[16]} with 16, "
    "{expected[50,257]} with 50,257.",
    expected={"3": 0.291, "16": 0.565, "50,257": 1.408},
    tolerance=6e-4,
    unit="nats",
)
def smoothed_floors() -> Mapping[str, float]:
    """Takes PyTorch's smoothed loss where its slope is 0, and makes sure that it is: no entry above 1e-9."""
    floors = {}
    for classes in (3, 16, 50_257):
        target = torch.full((1, classes), 0.1 / classes, dtype=torch.float64)
        target[0, 0] += 0.9
        logits = target.log().requires_grad_()
        loss = F.cross_entropy(logits, torch.tensor([0]), label_smoothing=0.1)
        (slope,) = torch.autograd.grad(loss, logits)
        floors[f"{classes:,}"] = loss.item() if slope.abs().max() < 1e-9 else math.nan
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
        (slope,) = torch.autograd.grad((norm(x)[0] * torch.arange(8)).sum(), x)
        reached[type(norm).__name__] = slope[1:].ne(0).any(dim=1).sum().item()
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
