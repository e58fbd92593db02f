"""Figures of the page of Lab 14."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load
from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box, cells

WIDTH, HEIGHT = 12.0, 9.0  # of a value's box
PLACES = {"w": (0, 12), "s": (17.6, 12), "a": (35.2, 12), "h": (52.8, 12), "y": (70.4, 12), "L": (88, 12)}
FORMULAS = {"w": "w", "s": "s = w × w", "a": "a = s + w", "h": "h = tanh a", "y": "y = a × h", "L": "L = y × y"}
SKIPS = (("w", "a"), ("a", "y"))  # edges that pass over a box


def expression() -> dict[str, Any]:
    """Runs L = (a tanh a)², a = w² + w, at w = 0.5 by the solved exercises, forward and backward; values by name."""
    engine = load(find_lab("14").reference)
    w = engine.Value(0.5)
    s = w * w
    a = s + w
    h = engine.tanh(a)
    y = a * h
    loss = y * y
    loss.backward()
    return {"w": w, "s": s, "a": a, "h": h, "y": y, "L": loss}


def edges(values: Mapping[str, Any], gradients: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """Returns what each result's vjp makes of its gradient for each operand, by (operand, result)."""
    names = {value: name for name, value in values.items()}
    shares: dict[tuple[str, str], float] = {}
    for name, value in values.items():
        if value.vjp is not None:
            for parent, share in zip(value.parents, value.vjp(np.asarray(gradients[name])), strict=True):
                edge = names[parent], name
                shares[edge] = shares.get(edge, 0.0) + float(share)
    return shares


def number(value: Any) -> str:
    return f"{float(value):.2f}".replace("-", "−")


def draw_expression(
    axes: Axes, values: Mapping[str, Any], shown: Mapping[str, float], handed: Mapping[str, float]
) -> None:
    """Draws a box per value with its number and its gradient `shown`, and at each arrow the gradient of that path.

    `handed` are the gradients that the vjps were called with. If a's is not its final gradient, tanh's share was late.
    """
    lost = handed["a"] != shown["a"]
    for (operand, result), share in edges(values, handed).items():
        (left, top), (right, _) = PLACES[operand], PLACES[result]
        skips = (operand, result) in SKIPS
        late = lost and (operand, result) == ("a", "h")
        color = style.PURPLE if late else style.ORANGE
        start, end = (right, top + 6), (left + WIDTH, top + 6)
        where = (left + right + WIDTH) / 2, top + 5.4
        if skips:
            start, end = (right + WIDTH / 2 - 2, top), (left + WIDTH / 2 + 2, top)
            where = (left + right + WIDTH) / 2, 5.8
        arrow(axes, start, end, color=color, bend=0.32 if skips else 0, line=1.8, dash=":" if late else "-")
        axes.text(*where, number(share), color=color, fontsize=9.5, ha="center", va="bottom")
        if not skips:
            arrow(axes, (left + WIDTH, top + 2.2), (right, top + 2.2), color=style.BLUE)
    for name, (left, top) in PLACES.items():
        box(axes, left, top, WIDTH, HEIGHT, rounding=0.9, edge=style.MUTED, line=0.8)
        middle = left + WIDTH / 2
        axes.text(middle, top + 2.3, number(values[name].data), color=style.BLUE, ha="center", va="center", fontsize=11)
        axes.text(middle, top + 6.6, number(shown[name]), color=style.ORANGE, ha="center", va="center", fontsize=11)
        axes.text(middle, top + HEIGHT + 2.2, FORMULAS[name], ha="center", va="center", fontsize=9.5)


@figure(
    "lab-14-graph",
    caption="The graph of L = (a tanh a)² with a = w² + w at w = 0.5, computed by this lab's engine. Blue: `data`, "
    "from left to right. Orange: `grad`, from right to left; the number at each arrow is the share that the vjp of the "
    "result returns for the operand. (For w × w and y × y, the vjp returns two shares; the arrow shows their sum.) w "
    "and a are each used by two results, so the gradient of each is the sum of two arrows.",
    description="Six boxes in a row, each with a value and a gradient: w 0.50 and 2.06, s = w w 0.25 and 1.03, "
    "a = s + w 0.75 and 1.03, h = tanh a 0.64 and 0.71, y = a h 0.48 and 0.95, L = y y 0.23 and 1.00. Blue arrows lead "
    "forward, orange arrows back with the share of each. Two curved arrows skip a box: from y to a with 0.61, "
    "from a to w with 1.03.",
)
def graph() -> Figure:
    values = expression()
    drawing, axes = style.new_figure(2.0)
    style.blank(axes, 100, 25)
    gradients = {name: float(value.grad) for name, value in values.items()}
    draw_expression(axes, values, gradients, gradients)
    axes.text(0, 3, "data", color=style.BLUE, fontweight="bold", va="center", fontsize=10.5)
    axes.text(0, 7.2, "grad", color=style.ORANGE, fontweight="bold", va="center", fontsize=10.5)
    return drawing


def gradients_by_distance(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the gradients of a backward pass that visits a before h: in the end, and as each vjp got them."""
    names = {value: name for name, value in values.items()}
    gradients, handed = dict.fromkeys(values, 0.0) | {"L": 1.0}, {}
    for name in ("L", "y", "a", "h", "s", "w"):
        value, handed[name] = values[name], gradients[name]
        if value.vjp is not None:
            for parent, share in zip(value.parents, value.vjp(np.asarray(gradients[name])), strict=True):
                gradients[names[parent]] += float(share)
    return gradients, handed


@figure(
    "lab-14-wrong-order",
    caption="The same graph, with two orders in which backward could visit the values. Above: the reverse topological "
    "order. Below: the order of distance from L. There, a and h are both one step from y, and a is visited before h. "
    "The vjp of a is then called with an incomplete gradient, and w gets "
    "[1.21 instead of 2.06](claim:lab-14-order-by-distance).",
    description="The six boxes twice, each with the number of its visit. Above, from right to left: L 1, y 2, h 3, "
    "a 4, s 5, w 6; the gradient of w is 2.06. Below, a is third and h fourth: the share 0.43 from h to a is dotted, "
    "marked as too late, and the gradient of w is 1.21.",
)
def wrong_order() -> Figure:
    values = expression()
    right = {name: float(value.grad) for name, value in values.items()}
    drawing, rows = style.new_figure(4.4, rows=2)
    visits = ("Lyhasw", "Lyahsw")
    for axes, order, title in zip(rows, visits, ("reverse topological order", "by distance from L"), strict=True):
        style.blank(axes, 100, 29)
        wrong = title.startswith("by")
        shown, handed = gradients_by_distance(values) if wrong else (right, right)
        draw_expression(axes, values, shown, handed)
        for visit, name in enumerate(order, start=1):
            left, top = PLACES[name]
            early = wrong and name in "ah"
            color = style.PURPLE if early else style.INK
            axes.plot(left + WIDTH / 2, top + HEIGHT + 6, "o", color=color, markersize=14)
            axes.text(left + WIDTH / 2, top + HEIGHT + 6, str(visit), color=style.PAPER, ha="center", va="center",
                      fontsize=9.5)  # fmt: skip
        axes.text(0, 1.6, title, fontweight="bold", va="center", fontsize=10.5)
    rows[1].text(
        100, 1.6, "dotted: arrives after a was visited", color=style.PURPLE, ha="right", va="center", fontsize=10
    )
    return drawing


@figure(
    "lab-14-losses",
    caption="The default run. Left: the engine's loss; torch's curve would lie on it. Right: the difference of the two "
    "losses at every 20th step. In float64, the difference stays below [1e-12](claim:lab-14-losses-beside-torch). In "
    "float32, which has larger rounding errors, it stays below 1e-4.",
    description="Left, the loss of the engine over 500 steps falls from 2.3 to about 0.3 nats per picture. Right, on a "
    "logarithmic axis, the differences of the engine's and torch's losses: near 1e-7 in float32 and near 1e-16 in "
    "float64, without growth.",
)
def losses() -> Figure:
    lines = measured_chart("lab-14-losses-beside-torch").lines
    drawing, (left, right) = style.new_figure(2.7, columns=2)
    steps, values, _, _ = columns(lines["engine, float64"])
    left.plot(steps, values, color=style.BLUE)
    left.set(xlabel="step", ylabel="loss, nats per picture", ylim=(0, 2.5), xlim=(0, 500), title="loss of the engine")
    for dtype, color in (("float32", style.AMBER), ("float64", style.BLUE)):
        steps, values, _, _ = columns(lines[f"difference, {dtype}"])
        drawn = [max(value, 1e-17) for value in values]
        right.plot(steps, drawn, ".", color=color, markersize=5, clip_on=False)
        right.text(250, max(drawn) * 4, dtype, color=color, ha="center", va="bottom", fontsize=10)
    right.set_yscale("log")
    right.set(xlabel="step", ylim=(3e-18, 1e-4), xlim=(0, 500), title="difference from torch's loss")
    right.set_yticks([1e-17, 1e-14, 1e-11, 1e-8, 1e-5], ["equal", *(f"1e-{power}" for power in (14, 11, 8, 5))])
    for axes in (left, right):
        axes.grid(axis="y")
    return drawing


@figure(
    "lab-14-unbroadcast",
    caption="A bias of 3 numbers is added to 4 rows. Forward repeats each number 4 times; backward sums the gradients "
    "of its 4 repetitions. Without the sum, the bias of shape [3] would get a gradient of shape [4, 3].",
    description="Left, forward: a row of three cells leads to a grid of four rows and three columns in which each "
    "column repeats one number. Right, backward: a grid of four by three gradients leads to a row of three cells, the "
    "sums of the columns.",
)
def unbroadcast() -> Figure:
    engine = load(find_lab("14").reference)
    bias, gradient = np.array([5, 6, 7]), np.array([[1, 0, 2], [3, 1, 0], [0, 2, 1], [1, 1, 1]])
    summed = engine.unbroadcast(gradient, bias.shape)
    drawing, axes = style.new_figure(2.3)
    style.blank(axes, 64, 20)
    colors = (style.BLUE, style.GREEN, style.PURPLE)
    for left, row, grid, title in (
        (4, bias, np.broadcast_to(bias, gradient.shape), "forward: repeat"),
        (38, summed, gradient, "backward: sum"),
    ):
        back = title.startswith("back")
        row_left, grid_left = (left + 16, left) if back else (left, left + 16)
        for line in range(4):
            cells(axes, grid_left, 4.6 + 3 * line, 3, colors, texts=[str(n) for n in grid[line]])
        cells(axes, row_left, 9.1, 3, colors, texts=[str(n) for n in row])
        start, end = left + 9.6, left + 15.4
        arrow(axes, (start, 10.6), (end, 10.6), line=2)
        axes.text(left, 1.6, title, fontweight="bold", va="center", fontsize=10.5)
        axes.text(grid_left + 4.5, 18.6, "[4, 3]", ha="center", va="center", fontsize=10)
        axes.text(row_left + 4.5, 14.2, "[3]", ha="center", va="center", fontsize=10)
    return drawing


@figure(
    "lab-14-set-not-added",
    caption="Two engines: one sets gradients, the other adds shares. Left: if gradients are set, the loss falls too, "
    "to [0.361 instead of 0.318](claim:lab-14-set-not-added). Right: the difference of this loss from torch's loss is "
    "far larger than rounding errors.",
    description="Left, two loss curves over 500 steps that fall from 2.3 to about 0.3 and cross several times. Right, "
    "on a logarithmic axis, the difference from torch's loss: near 1e-2 with gradients that are set, near 1e-16 with "
    "gradients that are added.",
)
def set_not_added() -> Figure:
    lines = measured_chart("lab-14-set-not-added").lines
    healthy = measured_chart("lab-14-losses-beside-torch").lines["difference, float64"]
    drawing, (left, right) = style.new_figure(2.7, columns=2)
    for name, color, place in (("added", style.BLUE, (120, 1.35)), ("set", style.ORANGE, (10, 0.25))):
        steps, values, _, _ = columns(lines[name])
        left.plot(steps, values, color=color)
        left.text(*place, name, color=color, fontsize=10)
    left.set(xlabel="step", ylabel="loss, nats per picture", ylim=(0, 2.5), xlim=(0, 500), title="loss of the engine")
    for line, name, color in ((lines["difference"], "set", style.ORANGE), (healthy, "added", style.BLUE)):
        steps, values, _, _ = columns(line)
        drawn = [max(value, 1e-17) for value in values]
        right.plot(steps, drawn, ".", color=color, markersize=5, clip_on=False)
        right.text(250, max(drawn) * 4, name, color=color, ha="center", va="bottom", fontsize=10)
    right.set_yscale("log")
    right.set(xlabel="step", ylim=(3e-18, 10), xlim=(0, 500), title="difference from torch's loss")
    right.set_yticks([1e-17, 1e-13, 1e-9, 1e-5, 1e-1], ["equal", *(f"1e-{power}" for power in (13, 9, 5, 1))])
    for axes in (left, right):
        axes.grid(axis="y")
    return drawing
