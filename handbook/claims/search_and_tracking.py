"""Claims of handbook/search-and-tracking.md."""

import contextlib
import io
import math
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.starters import SIZES, starter
from rankzero.learn.runs.plots import read_log


def quiet_optuna() -> Any:
    """Optuna, without a line per trial."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


# ------------------------------------------------------------------------------------------------------ how many trials
def trials_for(share: float, confidence: float) -> int:
    """Random trials until one is in the best `share` of the space with probability `confidence`."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - share))


@claim(
    "search-trials-for-a-share",
    "With probability 95 %, the best of {expected[best 5 %]:.0f} random trials is in the best 5 % of the space, of "
    "{expected[best 10 %]:.0f} trials in the best 10 %, and of {expected[best 1 %]:.0f} in the best 1 %.",
    expected={"best 10 %": 29, "best 5 %": 59, "best 1 %": 299},
    unit="trials",
)
def trials_for_a_share() -> Mapping[str, int]:
    """Computes the number by the formula, and checks it on 20,000 random searches."""
    found = {f"best {share} %": trials_for(share / 100, 0.95) for share in (10, 5, 1)}
    draws = np.random.default_rng(0).random((20_000, 59))
    assert abs((draws.min(axis=1) < 0.05).mean() - 0.95) < 0.01
    return found


@claim(
    "search-grid-and-random",
    "Of 25 trials over two settings, a grid tests {expected[grid]:.0f} different rates, and random search "
    "{expected[random]:.0f}.",
    expected={"grid": 5, "random": 25},
    unit="different rates",
)
def grid_and_random() -> Mapping[str, int]:
    """Lets Optuna's GridSampler and RandomSampler draw 25 trials, and counts the rates."""
    optuna, values = quiet_optuna(), np.linspace(0, 1, 5).tolist()
    samplers = {
        "grid": optuna.samplers.GridSampler({"lr": values, "decay": values}, seed=0),
        "random": optuna.samplers.RandomSampler(seed=0),
    }
    found = {}
    for name, sampler in samplers.items():
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda trial: trial.suggest_float("lr", 0, 1) + trial.suggest_float("decay", 0, 1), n_trials=25)
        found[name] = len({trial.params["lr"] for trial in study.trials})
    return found


# --------------------------------------------------------------------------------------------------------- the sampler
def drawn_rates(sampler: Any, trials: int, study: Any = None) -> list[float]:
    """The rates that a sampler draws in a new study, or in one that goes on."""
    optuna = quiet_optuna()
    study = study or optuna.create_study()
    study.sampler, before = sampler, len(study.trials)
    study.optimize(lambda trial: (math.log10(trial.suggest_float("lr", 1e-4, 1e-1, log=True)) + 2.5) ** 2, trials)
    return [trial.params["lr"] for trial in study.trials[before:]]


@claim(
    "search-tpe-begins-at-random",
    "The first {expected[equal draws]:.0f} trials of TPE are those of a random search with the same seed.",
    expected={"equal draws": 10},
    unit="trials of 20",
)
def tpe_begins_at_random() -> Mapping[str, int]:
    """Draws 20 trials with TPESampler and with RandomSampler, both seeded with 42, and counts equal rates."""
    samplers = quiet_optuna().samplers
    tpe, chance = drawn_rates(samplers.TPESampler(seed=42), 20), drawn_rates(samplers.RandomSampler(seed=42), 20)
    equal = [ours == theirs for ours, theirs in zip(tpe, chance, strict=True)]
    assert all(equal[:10])
    return {"equal draws": sum(equal)}


@claim(
    "search-seed-repeats",
    "A study that goes on with `TPESampler(seed=42)` draws its first {expected[seeded once]:.0f} trials again; with a "
    "seed from the study's seed and the trial's number, none of 5.",
    expected={"seeded once": 5, "seeded per trial": 0},
    unit="trials of 5 that are drawn again",
)
def seed_repeats() -> Mapping[str, int]:
    """Draws 5 trials, goes on as a restarted program does, draws 5 more, and counts the rates that come again."""
    optuna = quiet_optuna()
    study = optuna.create_study()
    first = drawn_rates(optuna.samplers.TPESampler(seed=42), 5, study)
    again = drawn_rates(optuna.samplers.TPESampler(seed=42), 5, study)
    study, per_trial = optuna.create_study(), list[float]()
    for number in range(10):
        seed = int(np.random.default_rng((42, number)).integers(2**31))
        per_trial += drawn_rates(optuna.samplers.TPESampler(seed=seed), 1, study)
    return {
        "seeded once": len(set(first) & set(again)),
        "seeded per trial": len(set(per_trial[:5]) & set(per_trial[5:])),
    }


@claim(
    "search-tpe-and-random",
    "On a smooth valley, 40 trials of TPE end closer to the minimum than 40 random trials in {expected[1]:.0f} of 20 "
    "searches if one of four settings matters, in {expected[2]:.0f} if two do, in {expected[4]:.0f} if all four do.",
    expected={"1": 14, "2": 15, "4": 18},
    tolerance=2,
    unit="searches of 20 in which TPE is closer",
)
def tpe_and_random() -> Charted:
    """Searches with both samplers on 20 seeds; the value is the squared distance of the settings that matter from 0.6.

    The chart has the median and the middle half over the searches of the best value so far, if all four matter.
    """
    optuna = quiet_optuna()

    def best_so_far(kind: Any, matter: int, seed: int) -> list[float]:
        def objective(trial: Any) -> float:
            return float(sum((value - 0.6) ** 2 for value in [trial.suggest_float(x, 0, 1) for x in "abcd"][:matter]))

        study = optuna.create_study(sampler=kind(seed=seed))
        study.optimize(objective, n_trials=40)
        return np.minimum.accumulate([trial.value for trial in study.trials]).tolist()

    closer, lines = {}, dict[str, list[Point]]()
    for matter in (1, 2, 4):
        chance = [best_so_far(optuna.samplers.RandomSampler, matter, seed) for seed in range(20)]
        tpe = [best_so_far(optuna.samplers.TPESampler, matter, seed) for seed in range(20)]
        closer[str(matter)] = sum(ours[-1] < theirs[-1] for ours, theirs in zip(tpe, chance, strict=True))
    for name, runs in (("random", chance), ("TPE", tpe)):
        middles = np.percentile(np.array(runs), [50, 25, 75], axis=0).T.tolist()
        lines[name] = [(float(number), mid, low, high) for number, (mid, low, high) in enumerate(middles, start=1)]
    return Charted(closer, Chart("Best value so far", "trials", "squared distance", lines, log="y"))


# ------------------------------------------------------------------------------------------------- choosing and pruning
@claim(
    "search-best-looks-better",
    "The best of 20 results that differ by noise alone is {expected[20]:.2f} standard deviations better than their "
    "mean; of 50, {expected[50]:.2f}; of 5, {expected[5]:.2f}.",
    expected={"5": 1.16, "20": 1.87, "50": 2.25},
    tolerance=0.02,
    unit="standard deviations",
)
def best_looks_better() -> Mapping[str, float]:
    """Takes the mean over 40,000 searches of the largest of 5, 20 and 50 normal numbers."""
    draws = np.random.default_rng(0).standard_normal((40_000, 50))
    return {str(count): float(draws[:, :count].max(axis=1).mean()) for count in (5, 20, 50)}


def ranks(values: list[float]) -> np.ndarray:
    return np.argsort(np.argsort(values))


@claim(
    "search-early-ranks",
    "The order of 12 random settings by validation loss has a rank correlation with their order at the end of "
    "{expected[an eighth]:.2f} after an eighth of the tokens, {expected[a quarter]:.2f} after a quarter, and "
    "{expected[half]:.2f} after half.",
    expected={"an eighth": 0.60, "a quarter": 0.80, "half": 0.92},
    tolerance=0.15,
    unit="Spearman's rank correlation",
)
def early_ranks() -> Charted:
    """Trains 12 random settings of Lab 15's search on 16,384 tokens each, without pruning.

    The chart has Spearman's rank correlation of the losses after each eighth with the losses at the end.
    """
    lab, optuna = starter("15"), quiet_optuna()
    run = lab.Run(lab.make_parser().parse_args(["--device", "cpu", "--tokens", "16384"]))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    curves = []
    for _ in range(12):
        curve: list[float] = []
        lab.train_trial(run, lab.suggest(study.ask()), 0, lambda _, __, loss, curve=curve: curve.append(loss))
        curves.append(curve)
    columns = [list(column) for column in zip(*curves, strict=True)]
    correlations = [float(np.corrcoef(ranks(column), ranks(columns[-1]))[0, 1]) for column in columns]
    points: list[Point] = [(12.5 * (eighth + 1), rho, rho, rho) for eighth, rho in enumerate(correlations)]
    value = {"an eighth": correlations[0], "a quarter": correlations[1], "half": correlations[3]}
    return Charted(value, Chart("Early ranks", "% of the tokens", "rank correlation with the end", {"loss": points}))


# --------------------------------------------------------------------------------------------------------- tracking
@claim(
    "tracking-equals-the-log",
    "Every loss, rate and validation loss that Lab 02's log has is in MLflow's store, under the same step: "
    "{expected[different]:.0f} of them differ.",
    expected={"different": 0, "in the log": 23},
    unit="values",
)
def tracking_equals_the_log() -> Mapping[str, int]:
    """Trains a tiny model for 10 steps with --track mlflow, and compares log.jsonl with the store. Needs MLflow."""
    from mlflow.tracking import MlflowClient

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        steps = ("--steps=10", "--eval-every=4", "--track=mlflow", f"--out={folder}")
        assert starter("02").main([*SIZES, *steps]) == 0
        (log,) = Path(folder).glob("lab-02-*/log.jsonl")
        events = read_log(log)
        client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
        (run,) = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
        logged = [(name, e["step"], e[name]) for e in events["step"] for name in ("loss", "lr")]
        logged += [("val_loss", event["step"], event["val_loss"]) for event in events["eval"]]
        names = ("loss", "lr", "val_loss")
        stored = {
            (name, entry.step, entry.value)
            for name in names
            for entry in client.get_metric_history(run.info.run_id, name)
        }
    return {"different": len(set(logged) ^ stored), "in the log": len(logged)}


@claim(
    "tracking-model-again",
    "A GPT that `mlflow.pytorch.log_model` has stored gives equal logits, bit for bit, after `load_model`. Without an "
    "example of its input, MLflow 3.17 refuses to store it.",
    expected={"equal logits": 1, "refused without an example": 1},
    unit="1 if true",
)
def tracking_model_again() -> Mapping[str, int]:
    """Stores Lab 02's small GPT in a SQLite store, loads it again and compares logits. Needs MLflow."""
    import os

    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    from rankzero.learn.models.gpt import GPT, GPTConfig

    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=96, block_size=16, n_layer=1, n_head=2, hidden_dim=32)).eval()
    x = torch.randint(96, (2, 16))
    with tempfile.TemporaryDirectory() as folder:
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        mlflow.set_experiment(experiment_id=mlflow.create_experiment("claim", Path(folder).as_uri()))
        with mlflow.start_run():
            refused = raises(lambda: mlflow.pytorch.log_model(model, name="model"))
            stored = mlflow.pytorch.log_model(model, name="model", input_example=x.numpy())
        again = mlflow.pytorch.load_model(stored.model_uri)
        with torch.no_grad():
            equal = torch.equal(again(x), model(x))
    return {"equal logits": int(equal), "refused without an example": int(refused)}


def raises(call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception:
        return True
    return False


@claim(
    "search-problem-answers",
    "99 % for the best 5 % takes {expected[trials at 99 %]:.0f} random trials; at a mean cost of 0.6 of a trial, "
    "40 trials' tokens pay for {expected[trials for 40 at 0.6]:.0f}.",
    expected={"trials at 99 %": 90, "trials for 40 at 0.6": 66, "share at 40": 7.2, "share at 66": 4.4},
    tolerance=0.05,
    unit="trials, %",
)
def problem_answers() -> Mapping[str, float]:
    """Computes the answers of the chapter's problems by its formula."""
    affordable = int(40 / (0.5 + 0.5 * 0.2))
    return {
        "trials at 99 %": trials_for(0.05, 0.99),
        "trials for 40 at 0.6": affordable,
        "share at 40": 100 * (1 - 0.05 ** (1 / 40)),
        "share at 66": 100 * (1 - 0.05 ** (1 / affordable)),
    }
