"""Plots of a run: loss, throughput, learning rate, memory by phase."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from rankzero.learn.profiling.memory import MIB, PhaseRow

TRAIN, VALIDATION, RATE = "#3b6fb6", "#d1622b", "#5a8f4e"


def read_log(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Returns the events of a JSONL log by kind: `run`, `step`, `window`, `eval`, and further kinds of a lab.

    A line truncated by a kill is left out.
    """
    events: dict[str, list[dict[str, Any]]] = {"run": [], "step": [], "window": [], "eval": []}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        events.setdefault(event.pop("event"), []).append(event)
    return events


def plot_run(log: Path) -> Figure:
    """Draws the loss of every step and validation, and the tokens per second of each window, over steps."""
    events = read_log(log)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    loss, rate = figure.subplots(1, 2)
    loss.plot(*_xy(events["step"], "loss"), color=TRAIN, linewidth=0.8, alpha=0.7, label="training, each step")
    if events["eval"]:
        loss.plot(*_xy(events["eval"], "val_loss"), "o-", color=VALIDATION, label="validation")
    loss.set(xlabel="step", ylabel="cross-entropy (nats per token)", title="Loss")
    loss.legend(frameon=False)
    rate.plot(*_xy(events["window"], "tokens_per_s"), ".-", color=RATE)
    rate.set(xlabel="step", ylabel="tokens/s", title="Throughput, one point per window", ylim=(0, None))
    for axes in (loss, rate):
        _plain(axes)
    return figure


def plot_losses(losses: Mapping[str, Sequence[float]], parting: int | None) -> Figure:
    """Draws the losses of two runs over steps from 1, and marks the step at which they part, if they do."""
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for (name, values), color, width in zip(losses.items(), (TRAIN, VALIDATION), (2.5, 1), strict=True):
        axes.plot(range(1, len(values) + 1), values, label=name, color=color, linewidth=width)
    if parting:
        axes.axvline(parting, color="black", linestyle=":", linewidth=1, label=f"they part at step {parting}")
    axes.set(xlabel="step", ylabel="cross-entropy (nats)", title="Training loss of each step")
    axes.legend(frameon=False)
    _plain(axes)
    return figure


def plot_learning_rate(log: Path) -> Figure:
    """Draws the learning rate of each step."""
    figure = Figure(figsize=(4.5, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(*_xy(read_log(log)["step"], "lr"), color=TRAIN)
    axes.set(xlabel="step", ylabel="learning rate", title="Learning rate", ylim=(0, None))
    _plain(axes)
    return figure


def plot_phases(rows: list[PhaseRow]) -> Figure:
    """Draws the MiB that a step holds after each phase: one stacked bar per phase."""
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.subplots()
    left = [0.0] * len(rows)
    colors = {"weights": TRAIN, "gradients": VALIDATION, "optimizer": RATE, "activations": "#8c6bb1"}
    for role, color in colors.items():
        widths = [getattr(row, role) / MIB for row in rows]
        axes.barh([f"after {row.phase}" for row in rows], widths, left=left, color=color, label=role)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="MiB held", title="Memory by phase of the first step")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    _plain(axes)
    return figure


def _xy(events: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    return [event["step"] for event in events], [event[name] for event in events]


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
