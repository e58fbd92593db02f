"""Figures of the page of Lab 04."""

import re

from matplotlib.figure import Figure

from rankzero.curriculum import find_lab
from rankzero.figures import style
from rankzero.figures.charts import measured_value
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_run
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.models import parameter_count

MIB = 2**20


def gradient_norms(name: str) -> list[tuple[int, float]]:
    """Reads the points (step, gradient norm) of a recording."""
    text = (find_lab("04").folder / "recorded" / f"{name}.txt").read_text(encoding="utf-8")
    return [(int(step), float(norm)) for step, norm in re.findall(r"^step +(\d+)/.*grad norm ([\d.]+)", text, re.M)]


@figure(
    "lab-04-memory-of-an-update",
    caption="Memory after each phase of one update on 12 sequences, before the optimizer has state. In one piece, "
    "forward ends with [28.2 MiB](claim:lab-04-gradients-wait). In three micro-batches of 4 sequences, gradients are "
    "in memory beside the activations from the second forward on: [14.55 MiB](claim:lab-04-gradients-wait).",
    description="Two groups of stacked bars. In one piece: after forward weights of 3.1 and activations of 25.1 MiB, "
    "after backward weights and gradients, 6.2 MiB. In three micro-batches: forward 11.5 MiB, backward 6.2, forward "
    "14.6 with gradients, backward 6.2, forward 14.6, backward 6.2.",
)
def memory_of_an_update() -> Figure:
    activations = measured_value("lab-04-activations-follow-the-micro-batch")
    parameters = 4 * parameter_count(GPTConfig(vocab_size=96)) / MIB
    drawing, (whole, parts) = style.new_figure(2.9, columns=2, sharey=True, width_ratios=(1, 2.3))
    for axes, size, count, title in ((whole, "12", 1, "In one piece"), (parts, "4", 3, "In three micro-batches")):
        for place in range(2 * count):
            sizes = (
                (parameters, style.WEIGHTS),
                (parameters if place else 0.0, style.GRADIENTS),
                (activations[size] / MIB if place % 2 == 0 else 0.0, style.ACTIVATIONS),
            )
            bottom = 0.0
            for height, color in sizes:
                axes.bar(place, height, 0.7, bottom=bottom, color=color)
                bottom += height
            axes.text(place, bottom + 0.4, f"{bottom:.1f}", ha="center", fontweight="bold")
        phases = ["forward", "backward"]
        names = phases if count == 1 else [f"{phase}\n{part}" for part in (1, 2, 3) for phase in phases]
        axes.set_xticks(range(2 * count), names)
        axes.tick_params(axis="x", labelsize=9)
        axes.set(title=title, ylim=(0, 32), xlim=(-0.6, 2 * count - 0.4))
    whole.set_ylabel("MiB")
    for height, name, color in (
        (27, "activations", style.ACTIVATIONS),
        (24, "gradients", style.GRADIENTS),
        (21, "weights", style.WEIGHTS),
    ):
        parts.text(2.5, height, name, color=color, ha="center")
    return drawing


@figure(
    "lab-04-break-it",
    caption="The recorded runs of the right loop and of the broken loop. The losses are nearly equal; the gradient "
    "norm, logged before clipping, is three times as large. AdamW "
    "[cancels the factor](claim:lab-04-adamw-hides-the-factor).",
    description="Left, two nearly equal loss curves from 4.5 to 2.7 over 100 steps. Right, the gradient norm: the "
    "right loop falls from 4.2 to 1.1; the broken loop begins at 4.4, rises to 5.7 at step 50 and ends at 3.1.",
)
def break_it() -> Figure:
    drawing, (loss, norm) = style.new_figure(2.9, columns=2)
    runs = (("first-run", style.BLUE, "right", "top"), ("one-part-first", style.ORANGE, "broken", "bottom"))
    for name, color, label, side in runs:
        points = [point for point in recorded_run("04", name).training if point[0] <= 100]
        loss.plot(*zip(*points, strict=True), "o-", color=color)
        style.label_line(loss, *points[-1], label, color, va=side)
        norms = [point for point in gradient_norms(name) if point[0] <= 100]
        norm.plot(*zip(*norms, strict=True), "o-", color=color)
        style.label_line(norm, *norms[-1], label, color)
    loss.set(xlabel="step", ylabel="nats per token", ylim=(0, 5), xlim=(0, 128), title="Training loss")
    norm.set(xlabel="step", ylabel="norm before clipping", ylim=(0, 6.4), xlim=(0, 128), title="Gradient norm")
    for axes in (loss, norm):
        axes.set_xticks(range(0, 101, 25))
    return drawing


@figure(
    "lab-04-noise-line",
    caption="The estimators of `noise_scale`. The expected squared norm is a straight line over 1/B: its height at 0 "
    "is |G|², and it rises by tr(S) per unit of 1/B. The squared norms at two batch sizes fix the line. Drawn for "
    "|G|² = 9 and tr(S) = 200.",
    description="A rising straight line of the squared norm over 1/B, from 9 at 1/B = 0 to 59 at 1/B = 1/4. Two points "
    "on it are marked: the whole batch of 16 sequences at 21.5, and the micro-batch of 4 at 59.",
)
def noise_line() -> Figure:
    signal, trace = 9.0, 200.0
    drawing, axes = style.new_figure(2.7)
    axes.plot([0, 0.3], [signal, signal + 0.3 * trace], color=style.GRAY)
    for size, color, name in ((16, style.BLUE, "whole batch, B = 16"), (4, style.ORANGE, "micro-batch, B = 4")):
        height = signal + trace / size
        axes.plot(1 / size, height, "o", color=color, markersize=8)
        style.label_line(axes, 1 / size, height, f"{name}: {height:g}", color, xytext=(12, -8))
    axes.plot(0, signal, "D", color=style.GREEN, markersize=8, clip_on=False)
    style.label_line(axes, 0, signal, "|G|²", style.GREEN, xytext=(12, -4))
    axes.text(0.15, 42.5, "rises by tr(S) per unit of 1/B", color=style.MUTED, ha="right")
    axes.set_xticks([0, 1 / 16, 1 / 8, 1 / 4], ["0", "1/16", "1/8", "1/4"])
    axes.set(xlabel="1/B", ylabel="mean squared norm", xlim=(0, 0.36), ylim=(0, 75))
    axes.grid()
    return drawing
