"""Claims of handbook/regularization.md: the page's experiment."""

import copy
import functools
import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim

from .shared import V, _loss, _model, _score, _source, _write

STEPS = 80


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
        self.averaged: dict[int, float] = {}  # validation loss of the average
        for step in range(STEPS + 1):
            batch = text[torch.arange(32 * step, 32 * step + 32) % lines]
            if step % 5 == 0:
                self.train[step], self.val[step] = _score(model, batch), _score(model, validation)
                self.averaged[step] = _score(average, validation)
            if step == STEPS:
                break
            optimizer.zero_grad()
            _loss(model, batch, smoothing).backward()
            self.clipped += nn.utils.clip_grad_norm_(model.parameters(), clip).item() > clip
            optimizer.step()
            for slow, weight in zip(average.parameters(), model.parameters(), strict=True):
                slow.data.lerp_(weight.data, 0.1)  # an average with β = 0.9, which training does not use
        self.best, self.end = min(self.val.values()), self.val[STEPS]


_run = functools.cache(_Run)  # several claims use the same run


def _chart(title: str, **curves: dict[int, float]) -> Chart:
    """Returns a chart of losses by step; the names of curves have "_" for spaces."""
    lines: dict[str, list[Point]] = {
        name.replace("_", " "): [(step, loss, loss, loss) for step, loss in losses.items()]
        for name, losses in curves.items()
    }
    return Chart(title, "step", "loss, nats per letter", lines)


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
def two_curves() -> Charted:
    """Trains the page's model in float64, and scores 128 new lines every 5 steps, also with the source's own table.

    The tolerance is for machines that add in another order: 80 steps amplify that.
    """
    run, new = _run(), _write(128, seed=2)
    guess = F.cross_entropy(torch.zeros(1, V), torch.tensor([0])).item()
    numbers = {
        "parameters": _model().parameter_count(),
        "guessing": guess,
        "source": -_source()[new[:, :-1], new[:, 1:]].log().mean().item(),
        "best": run.best,
        "best at step": min(run.val, key=lambda step: run.val[step]),
        "train end": run.train[STEPS],
        "end": run.end,
    }
    return Charted(numbers, _chart("Two curves", training=run.train, validation=run.val))


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
def the_best() -> Charted:
    """Takes the lowest of the scores of each run, one every 5 steps."""
    plain = _run()
    changed = {
        "decay 5": _run(decay=5.0),
        "dropout 0.2": _run(dropout=0.2),
        "smoothing 0.1": _run(smoothing=0.1),
        "4 times": _run(lines=128),
        "16 times": _run(lines=512),
    }
    curves = {
        "nothing": plain.val,
        "label_smoothing_0.1": changed["smoothing 0.1"].val,
        "dropout_0.2": changed["dropout 0.2"].val,
        "weight_decay_5": changed["decay 5"].val,
        "4_times_the_text": changed["4 times"].val,
        "16_times_the_text": changed["16 times"].val,
    }
    lower = {name: plain.best - run.best for name, run in changed.items()}
    return Charted(lower, _chart("Validation loss by regularizer", **curves))


@claim(
    "clipping-does-not-regularize",
    "Clipped at 0.05 in each of {expected[clipped steps]} steps, the run ends within 0.1 nats of the run without, "
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
    "With new lines in every step training and validation loss end within 0.1 nats of each other, and dropout 0.2 "
    "raises the validation loss by {expected[dropout costs]:.2f}.",
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
def no_cure() -> Charted:
    """Keeps the average beside both runs and scores it at the end; subtracts guessing's ln 16 in the second."""
    fresh, old = _run(lines=32 * (STEPS + 1)), _run()
    guess = F.cross_entropy(torch.zeros(1, V), torch.tensor([0])).item()
    differences = {
        "fresh text": fresh.end - fresh.averaged[STEPS],
        "overfitted, above guessing": old.averaged[STEPS] - guess,
    }
    chart = _chart(
        "Weights and their average",
        weights_fresh=fresh.val,
        average_fresh=fresh.averaged,
        weights_overfitted=old.val,
        average_overfitted=old.averaged,
    )
    return Charted(differences, chart)


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
