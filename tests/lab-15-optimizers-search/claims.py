"""Claims of labs/lab-15-optimizers-search.md."""

import contextlib
import functools
import io
import json
import math
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Muon, Optimizer

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.starters import starter
from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load
from rankzero.learn.runs.stop_request import StopRequest
from rankzero.learn.search.trial_report import Record, records, share_saved

TOKENS = 32_768  # of a trial, by default


@functools.cache
def exercises() -> Any:
    """The solved exercises."""
    return load(find_lab("15").reference)


# --------------------------------------------------------------------------------------------------- optimizers by hand
@functools.cache
def random_gradients() -> tuple[Tensor, list[Tensor]]:
    """A weight [24, 16] and 200 gradients, in float64."""
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(200, 24, 16, generator=generator, dtype=torch.float64)
    return torch.randn(24, 16, generator=generator, dtype=torch.float64), list(gradients)


def by_torch(kind: type[Optimizer], **settings: Any) -> Tensor:
    start, gradients = random_gradients()
    weight = start.clone().requires_grad_()
    optimizer = kind([weight], **settings)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    return weight.detach()


def by_hand(rule: Any, **settings: Any) -> Tensor:
    start, gradients = random_gradients()
    weight, state = start.clone(), dict[str, Any]()
    with torch.no_grad():
        for gradient in gradients:
            rule(weight, gradient, state, **settings)
    return weight


@claim(
    "lab-15-bit-equal",
    "Over 200 steps in float64, the solved steps of SGD, momentum and Nesterov give torch's weights bit for bit; those "
    "of Adam and AdamW differ by rounding.",
    expected={"SGD": 0, "momentum": 0, "Nesterov": 0, "Adam": 0, "AdamW": 0},
    tolerance=4e-15,
    unit="largest difference of a weight near 1",
)
def bit_equal() -> Mapping[str, float]:
    """Takes 200 steps of one weight [24, 16] with random gradients, by the solved exercises and by torch.optim.

    For SGD, momentum and Nesterov any difference at all fails the claim.
    """
    lab = exercises()
    momentum = {"lr": 0.01, "momentum": 0.9}
    decay = {"lr": 0.01, "weight_decay": 0.1}
    pairs = {
        "SGD": (by_hand(lab.sgd_step, lr=0.01), by_torch(SGD, lr=0.01, foreach=False)),
        "momentum": (by_hand(lab.sgd_step, **momentum), by_torch(SGD, foreach=False, **momentum)),
        "Nesterov": (
            by_hand(lab.sgd_step, nesterov=True, **momentum),
            by_torch(SGD, nesterov=True, foreach=False, **momentum),
        ),
        "Adam": (by_hand(lab.adam_step, **decay), by_torch(Adam, foreach=False, **decay)),
        "AdamW": (by_hand(lab.adamw_step, **decay), by_torch(AdamW, foreach=False, **decay)),
    }
    assert all(torch.equal(*pairs[name]) for name in ("SGD", "momentum", "Nesterov"))
    return {name: (hand - reference).abs().max().item() for name, (hand, reference) in pairs.items()}


@claim(
    "lab-15-adam-in-torchs-order",
    "Adam and AdamW are bit for bit torch's if the corrections are applied in torch's order: √v is divided by "
    "√(1 − β₂ᵗ), and the rate by 1 − β₁ᵗ.",
    expected={"Adam": 1, "AdamW": 1},
    unit="1 if all weights are equal bit for bit",
)
def adam_in_torchs_order() -> Mapping[str, int]:
    """Takes 200 steps in float64 with the two corrections where torch has them, and compares with torch.optim."""
    found = {}
    for kind in (Adam, AdamW):
        weight, gradients = random_gradients()
        m, v = torch.zeros_like(weight), torch.zeros_like(weight)
        for t, gradient in enumerate(gradients, start=1):
            if kind is AdamW:
                weight = weight * (1 - 0.01 * 0.1)
            g = gradient if kind is AdamW else gradient.add(weight, alpha=0.1)
            m = m.lerp(g, 1 - 0.9)
            v = (v * 0.999).addcmul(g, g, value=1 - 0.999)
            denominator = v.sqrt() / (1 - 0.999**t) ** 0.5 + 1e-8
            weight = weight.addcdiv(m, denominator, value=-0.01 / (1 - 0.9**t))
        reference = by_torch(kind, lr=0.01, weight_decay=0.1, foreach=False)
        found[kind.__name__] = int(torch.equal(weight, reference))
    return found


@claim(
    "lab-15-muon-in-bf16",
    "torch's Muon computes its iterations in bfloat16. After 200 steps of 0.01, its weights differ from those of the "
    "solved exercise, in float64, by at most 0.005, about a hundredth of the distance that the weights moved.",
    expected={"difference": 0.0014, "distance": 0.80},
    tolerance=0.05,
    unit="largest over the weights",
)
def muon_in_bf16() -> Mapping[str, float]:
    """Takes 200 steps of a weight [24, 16] by both; the difference must be below 0.005."""
    hand, reference = by_hand(exercises().muon_step, lr=0.01), by_torch(Muon, lr=0.01)
    difference = (hand - reference).abs().max().item()
    assert 0 < difference < 0.005
    return {"difference": difference, "distance": (reference - random_gradients()[0]).abs().max().item()}


@claim(
    "lab-15-newton-schulz",
    "A matrix [64, 64] whose singular values run from 1 to 10 has values between {expected[lowest after 5]:.2f} and "
    "{expected[highest after 5]:.2f} after 5 iterations; they do not come closer to 1 with more.",
    expected={"lowest after 5": 0.68, "highest after 5": 1.13, "lowest after 8": 0.68, "highest after 8": 1.13},
    tolerance=0.02,
    unit="singular value",
)
def newton_schulz() -> Charted:
    """Computes the singular values after 0 to 8 iterations in float64."""
    lab, generator = exercises(), torch.Generator().manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(64, 64, generator=generator, dtype=torch.float64))
    matrix = u @ torch.diag(torch.logspace(1, 0, 64, dtype=torch.float64)) @ v
    values = [torch.linalg.svdvals(lab.newton_schulz(matrix, count)).tolist() for count in range(9)]
    lines: dict[str, list[Point]] = {}
    for number in range(0, 64, 7):
        line = [value[number] for value in values]
        lines[str(number)] = [(float(count), size, size, size) for count, size in enumerate(line)]
    ends = {f"{name} after {count}": pick(values[count]) for count in (5, 8) for name, pick in ENDS.items()}
    return Charted(ends, Chart("Singular values", "iterations", "singular value", lines))


ENDS = {"lowest": min, "highest": max}


@claim(
    "lab-15-average-warm-up",
    "After 100 updates, an average with decay 0.999 still has {expected[constant]:.0%} of the first weights; with the "
    "decay's warm-up it has less than a millionth.",
    expected={"constant": 0.9048, "warm-up": 0.0},
    tolerance=1e-4,
    unit="share of the first weights",
)
def average_warm_up() -> Mapping[str, float]:
    """Averages a weight that is 1 at the start and 0 in all of 100 updates, by the solved exercise and by 0.999."""
    average, model = torch.nn.Linear(1, 1, bias=False).double(), torch.nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        average.weight.fill_(1.0)
        model.weight.zero_()
    for step in range(100):
        exercises().update_average(average, model, step, 0.999)
    assert 0 < average.weight.item() < 1e-6
    return {"constant": 0.999**100, "warm-up": average.weight.item()}


# ---------------------------------------------------------------------------------------------------------- the search
@functools.cache
def default_search() -> tuple[list[Record], Mapping[str, Any], list[list[float]]]:
    """Runs the starter's default search; returns its trials, the best settings, and losses on fresh seeds."""
    lab = starter("15")
    with tempfile.TemporaryDirectory() as folder:
        run = lab.Run(lab.make_parser().parse_args(["--device", "cpu"]))
        storage = Path(folder) / "study.db"
        run.open_study(storage)
        with contextlib.redirect_stdout(io.StringIO()):
            lab.search(run, storage, StopRequest())
        best = run.study.best_params
        seeds = range(1000, 1003)
        losses = [
            [run.loss_of(lab.train_trial(run, setting, seed, lambda *_: None), run.judge) for seed in seeds]
            for setting in (run.default, best)
        ]
        return records(run.study.trials), best, losses


@claim(
    "lab-15-search",
    "In the default search of 20 trials, the median rule ends more than a quarter of the trials early and saves more "
    "than a fifth of all tokens.",
    expected={"pruned: more than a quarter": 1, "tokens saved: more than a fifth": 1},
    unit="",
)
def search() -> Charted:
    """Runs the starter's search with its default options; the chart has the losses that each trial reported."""
    trials, _, _ = default_search()
    pruned = sum(record["state"] == "pruned" for record in trials)
    value = {
        "pruned: more than a quarter": int(pruned > len(trials) / 4),
        "tokens saved: more than a fifth": int(share_saved(trials, TOKENS) > 0.2),
    }
    lines: dict[str, list[Point]] = {
        f"{record['number']} {record['state']}": [
            (float(tokens), loss, loss, loss) for tokens, loss in record["validation"].items()
        ]
        for record in trials
    }
    return Charted(value, Chart("Trials", "tokens", "validation loss (nats per token)", lines))


@claim(
    "lab-15-settings",
    "The rate decides most: among the trials of the default search, those with the lowest losses have rates within a "
    "factor of 10 of each other.",
    expected={"best three: rates within a factor of 10": 1},
    unit="",
)
def settings() -> Charted:
    """Takes the trials of the default search; the chart has the last loss that each trial reported over its rate."""
    trials = [record for record in default_search()[0] if record["validation"]]
    lines: dict[str, list[Point]] = {}
    for record in trials:
        loss = list(record["validation"].values())[-1]
        line = lines.setdefault(f"{record['parameters']['batch_size']} {record['state']}", [])
        line.append((record["parameters"]["lr"], loss, loss, loss))
    complete = [record for record in trials if record["state"] == "complete"]
    best = sorted(complete, key=lambda record: record["validation"][TOKENS])[:3]
    rates = [record["parameters"]["lr"] for record in best]
    value = {"best three: rates within a factor of 10": int(max(rates) <= 10 * min(rates))}
    return Charted(value, Chart("Rates", "learning rate", "last validation loss (nats per token)", lines, log="x"))


@claim(
    "lab-15-fresh-seeds",
    "The best settings of the default search beat the default settings by more than 0.1 nats on three seeds and a text "
    "that no trial has seen: the worst of the three is better than the default's best.",
    expected={"means: more than 0.1 apart": 1, "worst of best beats best of default": 1},
    unit="",
)
def fresh_seeds() -> Charted:
    """Trains both settings on seeds 1000 to 1002, judged by the half of the validation text that no trial has used."""
    default, best = default_search()[2]
    value = {
        "means: more than 0.1 apart": int(statistics.mean(default) - statistics.mean(best) > 0.1),
        "worst of best beats best of default": int(max(best) < min(default)),
    }
    bars: dict[str, list[Point]] = {
        name: [(f"seed {1000 + number}", loss, loss, loss) for number, loss in enumerate(losses)]
        for name, losses in (("default", default), ("best", best))
    }
    return Charted(value, Chart("Fresh seeds", "seed", "loss (nats per token)", bars))


# --------------------------------------------------------------------------------------------------- killed processes
SMALL = ("--device=cpu", "--tokens=16384", "--hidden-dim=32", "--layers=1", "--trials=6")


def run_killed(folder: Path, *, workers: int) -> tuple[list[Record], int]:
    """Starts the search and kills its first process by SIGKILL in the middle of a trial.

    The other processes finish the study; without others, the same command goes on with it. Returns the trials, and the
    number of the killed one.
    """
    storage = folder / "study.db"
    command = [sys.executable, str(find_lab("15").starter), *SMALL, f"--storage={storage}", f"--out={folder}"]
    process = subprocess.Popen([*command, f"--workers={workers}"], stdout=subprocess.DEVNULL)
    while (number := running_trial(storage, process.pid)) is None:
        assert process.poll() is None, "the search ended before it could be killed"
        time.sleep(0.02)
    others = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    if others:
        _, running = psutil.wait_procs(others, timeout=900)
        assert not running
    else:
        subprocess.run([*command, "--join"], stdout=subprocess.DEVNULL, check=True, timeout=900)
    return stored_trials(storage), number


def stored_trials(storage: Path) -> list[Record]:
    import optuna

    return records(optuna.load_study(study_name="search", storage=f"sqlite:///{storage}").trials)


def running_trial(storage: Path, pid: int) -> int | None:
    """Returns the number of a trial that the process runs, and of which it has reported a loss; never trial 0."""
    query = """SELECT t.number, u.value_json FROM trials t JOIN trial_user_attributes u ON u.trial_id = t.trial_id
        WHERE t.state = 'RUNNING' AND t.number > 0 AND u.key = 'process'
        AND EXISTS (SELECT 1 FROM trial_intermediate_values v WHERE v.trial_id = t.trial_id)"""
    with (
        contextlib.suppress(sqlite3.OperationalError),
        sqlite3.connect(f"file:{storage}?mode=ro", uri=True) as database,
    ):
        rows = database.execute(query).fetchall()  # or the file or its tables are not there yet
        return next((number for number, process in rows if json.loads(process)[1] == pid), None)
    return None


def counts(trials: list[Record], killed: int) -> dict[str, int]:
    """Counts what a kill must not change, and what it must leave."""
    done = [record for record in trials if record["state"] in ("complete", "pruned")]
    kinds = Counter(tuple(sorted(record["parameters"].items())) for record in done)
    again = [record for record in done if record["again"] == killed]
    return {
        "complete or pruned": len(done),
        "of these, doubled": sum(count - 1 for count in kinds.values()),
        "failed": sum(record["state"] == "failed" for record in trials),
        "of these, run again": len(again),
        "same settings again": int(again[0]["parameters"] == trials[killed]["parameters"]) if again else 0,
        "still running or waiting": sum(record["state"] in ("running", "waiting") for record in trials),
    }


WHOLE = {
    "complete or pruned": 6,
    "of these, doubled": 0,
    "failed": 1,
    "of these, run again": 1,
    "same settings again": 1,
    "still running or waiting": 0,
}


@claim(
    "lab-15-killed-and-resumed",
    "A search of 6 trials whose process is killed by SIGKILL in the middle of a trial, and started again, ends with 6 "
    "trials complete or pruned: the killed trial failed, its settings were run again, and none is doubled.",
    expected=WHOLE,
    unit="trials",
)
def killed_and_resumed() -> Mapping[str, int]:
    """Kills the process once a trial after the first has reported a loss, runs the command again, and counts."""
    with tempfile.TemporaryDirectory() as folder:
        return counts(*run_killed(Path(folder), workers=1))


@claim(
    "lab-15-killed-worker",
    "Of two processes on one study, one is killed by SIGKILL in the middle of a trial: the other one runs the trial's "
    "settings again, and the study ends with 6 trials complete or pruned, none doubled.",
    expected=WHOLE,
    unit="trials",
)
def killed_worker() -> Mapping[str, int]:
    """Starts the search with --workers 2, kills the first process once it has reported a loss, and counts."""
    with tempfile.TemporaryDirectory() as folder:
        return counts(*run_killed(Path(folder), workers=2))


# ------------------------------------------------------------------------------------------------------ the median rule
@claim(
    "lab-15-median-rule",
    "The solved median rule decides as optuna's MedianPruner in each of 400 random studies, with NaN among the values.",
    expected={"the same": 400, "of these, pruned: more than a tenth": 1},
    unit="studies",
)
def median_rule() -> Mapping[str, int]:
    """Makes 400 random studies in memory, of both directions, and asks both rules about their last trial."""
    import optuna

    lab, draw, decisions = exercises(), random.Random(0), list[tuple[bool, bool]]()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for _ in range(400):
        direction: Any = draw.choice(["minimize", "maximize"])
        startup, warmup = draw.randrange(4), draw.randrange(4)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=startup, n_warmup_steps=warmup)
        study = optuna.create_study(direction=direction, pruner=pruner)
        trials = []
        for number in range(draw.randrange(1, 8)):
            values = {step: draw.choice([draw.random(), draw.random(), math.nan]) for step in range(draw.randrange(6))}
            trials.append({"number": number, "state": "complete", "parameters": {}, "seed": 0, "validation": values})
            frozen = optuna.trial.create_trial(value=1.0, intermediate_values=values)
            study.add_trial(frozen)
        trial = study.ask()
        values = {step: draw.choice([draw.random(), draw.random(), math.nan]) for step in range(draw.randrange(1, 6))}
        for step, value in values.items():
            trial.report(value, step)
        own = {"number": len(trials), "state": "running", "parameters": {}, "seed": 0, "validation": values}
        options = {"startup_trials": startup, "warmup_steps": warmup, "direction": direction}
        decisions.append((trial.should_prune(), lab.should_prune(own, [*trials, own], **options)))
    return {
        "the same": sum(bool(theirs) == ours for theirs, ours in decisions),
        "of these, pruned: more than a tenth": int(sum(ours for _, ours in decisions) > 40),
    }
