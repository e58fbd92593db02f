"""Trial report: the trials of a search as plain records, as lines of a table, as a log and as curves."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from rankzero.learn.runs.plots import TRAIN, VALIDATION

if TYPE_CHECKING:  # Optuna takes a second to load
    import optuna

Record = dict[str, Any]  # number, state, parameters, seed, training and validation (step -> loss), again
HEADING = "trial  state      lr        batch  decay    warm-up  beta2  tokens   val loss"
GRAY = "#8a8a8a"


def records(trials: Sequence[Any]) -> list[Record]:
    """Returns the trials of a study of Optuna as records. Steps are as they were reported."""
    return [
        {
            "number": trial.number,
            "state": {"FAIL": "failed"}.get(trial.state.name, trial.state.name.lower()),
            "parameters": trial.params,
            "seed": trial.user_attrs.get("seed"),
            "training": {int(step): loss for step, loss in trial.user_attrs.get("training", {}).items()},
            "validation": dict(sorted(trial.intermediate_values.items())),
            "again": trial.user_attrs.get("again"),
        }
        for trial in trials
    ]


def trial_row(record: Record) -> str:
    """Returns one line of the table below HEADING."""
    p, validation = record["parameters"], record["validation"]
    tokens, loss = list(validation.items())[-1] if validation else (max(record["training"], default=0), math.nan)
    settings = (
        f"{p['lr']:<8.2g}  {p['batch_size']:>5}  {p['weight_decay']:<7.2g}  {p['warmup']:>7.2f}  {p['beta2']:<5g}"
    )
    again = f"  trial {record['again']} again" if record["again"] is not None else ""
    return f"{record['number']:>5}  {record['state']:<9}  {settings}  {tokens:>6,}  {loss:>8.4f}{again}"


def share_saved(trials: Sequence[Record], budget: int) -> float:
    """Returns the share of the tokens of all finished and pruned trials that pruning has saved."""
    counted = [record for record in trials if record["state"] in ("complete", "pruned")]
    return 1 - sum(max(record["training"], default=0) for record in counted) / (len(counted) * budget)


def write_log(file: Path, trials: Sequence[Record], settings: Mapping[str, Any]) -> None:
    """Writes the losses that the trials reported to a log: steps count the reports of all trials, in their order."""
    events: list[dict[str, Any]] = [{"event": "run", "settings": settings}]
    for record in trials:
        for tokens, loss in record["training"].items():
            measured = {"loss": loss, "trial": record["number"], "tokens": tokens}
            if tokens in record["validation"]:
                measured["val_loss"] = record["validation"][tokens]
            events.append({"event": "step", "step": len(events), **measured})
    file.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")


def summary(trials: Sequence[Record], budget: int) -> str:
    """Returns how the trials ended, and what pruning saved, in words."""
    counts = {state: sum(record["state"] == state for record in trials) for state in ("complete", "pruned", "failed")}
    words = ", ".join(f"{count} {state}" for state, count in counts.items())
    return f"trials  {words}; pruning saved {share_saved(trials, budget):.0%} of their tokens"


def draw(study: "optuna.Study", trials: Sequence[Record], folder: Path) -> None:
    """Draws the curves of the trials, and three plots that Optuna draws of any study, into `folder`."""
    from optuna.visualization import matplotlib as plots

    best = study.best_trial.number
    plot_trials(trials, best).savefig(folder / "curves.png", dpi=110)
    with rc_context():  # Optuna sets a style of its own, for the whole process
        for name in ("optimization_history", "parallel_coordinate", "param_importances"):
            try:
                axes = getattr(plots, f"plot_{name}")(study)
            except (RuntimeError, ValueError):
                continue  # too few trials for this plot
            axes.figure.savefig(folder / f"{name}.png", dpi=110, bbox_inches="tight")


def plot_trials(trials: Sequence[Record], best: int) -> Figure:
    """Draws the validation loss of each trial over its tokens; crosses mark where trials were pruned."""
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    for record in sorted(trials, key=lambda record: record["number"] == best):  # the best one on top
        steps, losses = list(record["validation"]), list(record["validation"].values())
        if not steps or record["state"] not in ("complete", "pruned"):
            continue
        pruned, chosen = record["state"] == "pruned", record["number"] == best
        color = VALIDATION if chosen else GRAY if pruned else TRAIN
        axes.plot(steps, losses, color=color, linewidth=2 if chosen else 1, alpha=1 if chosen else 0.7)
        axes.plot(steps[-1], losses[-1], "x" if pruned else "o", color=color, markersize=5)
    for color, label in ((VALIDATION, f"best: trial {best}"), (TRAIN, "finished"), (GRAY, "pruned")):
        axes.plot([], [], color=color, label=label)
    axes.set(xlabel="tokens", ylabel="validation loss (nats per token)", title="Trials, finished and pruned")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
