"""Figures of the chapter on the training loop."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart, measured_value
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_run


@figure(
    "loss-of-a-healthy-run",
    caption="The recorded run of Lab 02. (1) The untrained model predicts no better than a guess. (2) After 100 steps "
    "the loss is below [3.28 nats](claim:losses-of-counting-tables), the loss of a table with the frequency of each "
    "character. (3) Below [2.60 nats](claim:losses-of-counting-tables), the loss of a table of character pairs, the "
    "model uses more than the last character. (4) The validation loss, on text that is not trained on, ends a little "
    "higher.",
    description="Training loss over 600 steps. It starts at 4.53, near the dashed line of a guess at 4.56, crosses the "
    "line of character frequencies at 3.28 near step 50 and the line of character pairs at 2.60 near step 150, and "
    "ends at about 2.0, a little below the validation loss of 2.16. Four numbered marks name these moments.",
)
def loss_of_a_healthy_run() -> Figure:
    run, tables = recorded_run("02", "first-run"), measured_value("losses-of-counting-tables")
    drawing, axes = style.new_figure(3.4)
    for level, name in (
        (math.log(96), "ln 96: a guess among 96 characters"),
        (tables["one character"], "a table of character frequencies"),
        (tables["pairs"], "a table of character pairs"),
    ):
        axes.axhline(level, color=style.GRAY, linestyle="--", linewidth=1)
        axes.text(608, level + 0.05, name, color=style.MUTED, ha="right", va="bottom")
    axes.plot(*zip(*run.training, strict=True), "o-", color=style.BLUE)
    axes.plot(*zip(*run.validation, strict=True), "D", color=style.ORANGE, markersize=6)
    points = dict(run.training)
    for number, step, shift in ((1, 1, (14, -2)), (2, 100, (9, 10)), (3, 300, (0, -14))):
        _mark(axes, number, (step, points[step]), shift, style.BLUE)
    _mark(axes, 4, run.validation[-1], (14, 2), style.ORANGE)
    axes.text(420, 1.72, "training", color=style.BLUE)
    axes.text(592, run.validation[-1][1] + 0.06, "validation", color=style.ORANGE, ha="right")
    axes.set(xlabel="step", ylabel="loss, nats per token", ylim=(1.5, 5.0), xlim=(-8, 632))
    return drawing


def _mark(axes: Axes, number: int, point: tuple[float, float], shift: tuple[int, int], color: str) -> None:
    """Writes a number in a circle beside a point of a curve."""
    circle: dict[str, Any] = {"boxstyle": "circle,pad=0.2", "facecolor": color, "edgecolor": "none"}
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9, "fontweight": "bold"}
    axes.annotate(
        str(number), point, shift, textcoords="offset points", bbox=circle, color=style.text_on(color), **look
    )


@figure(
    "orders-of-the-calls",
    caption="The same loops on another batch, of random tokens. Two wrong orders change no weight. Without `zero_grad` "
    "the loss falls at first, then rises [above the untrained model's](claim:never-clearing-climbs). No run raises an "
    "error.",
    description="Loss over 60 steps on one batch. The right order falls from 3.2 nats to almost 0 within 30 steps. "
    "Clearing too late and updating first stay level at 3.2. Never clearing falls with the right order for about ten "
    "steps, then swings up and ends above the starting loss.",
)
def orders_of_the_calls() -> Figure:
    chart = measured_chart("never-clearing-climbs")
    drawing, axes = style.new_figure(3.1)
    looks: dict[str, tuple[str, str, tuple[float, float]]] = {
        "right order": (style.BLUE, "clear, backward, update", (22, 0.24)),
        "never clear": (style.ORANGE, "backward, update: never cleared", (37, 1.55)),
        "clear too late": (style.GRAY, "backward, clear, update", (12, 3.27)),
        "update first": (style.PURPLE, "clear, update, backward", (12, 2.84)),
    }
    for name, (color, label, place) in looks.items():
        steps, losses, _, _ = columns(chart.lines[name])
        axes.plot(steps, losses, color=color, linestyle="--" if name == "update first" else "-")
        axes.text(*place, label, color=color)
    axes.set(xlabel="step", ylabel=chart.y, xlim=(0, 61), ylim=(0, 3.8), xticks=range(0, 61, 10))
    return drawing
