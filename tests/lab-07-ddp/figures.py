"""Figures of the page of Lab 07."""

import re

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_run, recorded_text
from rankzero.figures.shapes import arrow, box


def all_reduced(step: int) -> list[int]:
    """Bytes of each all-reduce of gradients that rank 0 of the first run printed for a step; the last is the loss."""
    (line,) = re.findall(
        rf"^sent in step {step}, rank 0: .*all_reduce (.*)$", recorded_text("07", "first-run"), re.MULTILINE
    )
    return [int(size.replace(",", "")) for size in line.split(" + ")][:-1]


def difference_in_float64(name: str) -> float:
    """Relative difference of the gradients that the starter printed before a run."""
    (number,) = re.findall(r"^float64 .* (\S+)$", recorded_text("07", name), re.MULTILINE)
    return float(number)


def losses_of_100_steps(name: str) -> dict[str, float]:
    """Losses that a recorded run printed for its first 100 steps, by step and kind."""
    run = recorded_run("07", name)
    losses = {f"step {step}": loss for step, loss in run.training if step <= 100}
    return losses | {f"validation,\nstep {step}": loss for step, loss in run.validation if step <= 100}


def draw_sent(axes: Axes) -> None:
    """Draws the bytes of each all-reduce in the first two steps of the first run, stacked."""
    for place, step in enumerate((1, 2)):
        bottom = 0.0
        for bucket, size in enumerate(all_reduced(step)):
            height = size / 2**20
            color = (style.COMMUNICATION, style.BLUE)[bucket]
            axes.bar(place, height, 0.6, bottom=bottom, color=color)
            middle, text_color = bottom + height / 2, style.text_on(color)
            axes.text(place, middle, f"{height:.2f}", ha="center", va="center", color=text_color)
            bottom += height
    axes.text(0, 3.15, "one bucket", ha="center", va="bottom")
    axes.text(1, 3.15, "two buckets", ha="center", va="bottom")
    axes.set_xticks([0, 1], ["step 1", "step 2"])
    axes.set(ylabel="MiB sent to all-reduces", ylim=(0, 3.6), xlim=(-0.6, 1.6), title="All-reduces of gradients")


@figure(
    "lab-07-first-run",
    caption="The recorded run. Left: in step 1, all gradients are all-reduced in one bucket; from step 2 on there are "
    "[two buckets](claim:lab-07-sent-by-step). Right: the losses on two ranks (points) are those of Lab 02's single "
    "process (circles).",
    description="Left, two stacked bars of the MiB that rank 0 gives to all-reduces: 3.08 in one piece in step 1; 1.00 "
    "and 2.08 in step 2. Right, the training loss over 200 steps falls from 4.53 to about 2.5; the points of Lab 07 "
    "lie in the circles of Lab 02.",
)
def first_run() -> Figure:
    drawing, (sent, loss) = style.new_figure(3.1, columns=2, width_ratios=(1, 1.25))
    draw_sent(sent)
    alone = [point for point in recorded_run("02", "first-run").training if point[0] <= 200]
    loss.plot(*zip(*recorded_run("07", "first-run").training, strict=True), "o-", color=style.BLUE)
    loss.plot(*zip(*alone, strict=True), "o", color=style.ORANGE, markersize=9, fillstyle="none", markeredgewidth=1.5)
    loss.text(60, 3.45, "Lab 02: one process", color=style.ORANGE)
    loss.text(60, 3.85, "Lab 07: two ranks", color=style.BLUE)
    loss.set(xlabel="step", ylabel="nats per token", ylim=(0, 5), xlim=(-8, 210), title="Training loss")
    return drawing


@figure(
    "lab-07-overlap",
    caption="Three buckets A, B and C, which all ranks must send in this order. Backward completes B first, but no "
    "all-reduce starts, because A comes before B. When A is complete, the all-reduces of A and B start. When C is "
    "complete, the all-reduce of C starts.",
    description="A time line of backward with three events: B complete, A complete, C complete. Below it one lane per "
    "bucket. A's lane is filled with its all-reduce from the moment when A is complete. B's lane shows a waiting time "
    "from B complete to A complete, then its all-reduce. C's all-reduce starts when C is complete; finish() waits for "
    "all three.",
)
def overlap() -> Figure:
    drawing, axes = style.new_figure(2.6)
    style.blank(axes, 120, 43)
    complete = {"A": 50, "B": 28, "C": 72}
    box(axes, 10, 5, 64, 6, "backward", color=style.ACTIVATIONS)
    box(axes, 98, 5, 21, 6, "optimizer", color=style.WEIGHTS)
    box(axes, 75, 5, 22, 6, "finish() waits", color=style.PANEL)
    for name, at in complete.items():
        axes.text(at, 3.8, f"{name} complete", ha="center", va="bottom", fontsize=9.5)
        axes.plot([at, at], [5, 40], color=style.MUTED, linewidth=0.8, linestyle=":")
    starts = {"A": 50, "B": 50, "C": 72}
    for lane, (name, start) in enumerate(starts.items()):
        top = 14 + 9 * lane
        axes.text(4, top + 3, name, ha="center", va="center", fontweight="bold", fontsize=11)
        if start > complete[name]:
            box(axes, complete[name], top, start - complete[name], 6, "waits for A", color=style.PANEL, edge=style.GRID)
        shift = 2 if name == "B" else 0.4
        box(axes, start + shift, top, 23, 6, f"all-reduce {name}", color=style.COMMUNICATION, edge=style.PAPER)
    arrow(axes, (10, 41.5), (119, 41.5), color=style.GRID)
    axes.text(119, 40.8, "time", ha="right", va="bottom", color=style.MUTED)
    return drawing


@figure(
    "lab-07-break-it",
    caption="A run that averages gradients (healthy) and a run that averages weights. Left: all losses that both runs "
    "print in 100 steps, in nats per token; the runs can hardly be told apart. Right: in the comparison before the "
    "first step, the gradients are off by 0.3 of the largest gradient instead of "
    "[less than 1e-12](claim:lab-07-ranks-equal-the-whole).",
    description="Left, four rows with two points each: the training losses of steps 1, 50 and 100 and the validation "
    "loss of step 100. The points of a row lie on each other or almost; the broken run is 0.03 higher at most. Right, "
    "the relative difference of the gradients in float64 on a logarithmic axis: about 1e-15 for the healthy run and "
    "0.3 for the broken run.",
)
def break_it() -> Figure:
    drawing, (loss, gradients) = style.new_figure(2.9, columns=2, width_ratios=(1.15, 1))
    runs = {
        "first-run": ("averages\ngradients", style.BLUE),
        "averages-the-weights": ("averages\nweights", style.ORANGE),
    }
    for place, (name, (label, color)) in enumerate(runs.items()):
        losses = losses_of_100_steps(name)
        loss.plot(losses.values(), range(len(losses)), "oD"[place], color=color, markersize=8 - 3 * place)
        for row, value in enumerate(losses.values()):
            loss.text(5.0 + 0.85 * place, row, f"{value:.2f}", color=color, ha="center", va="center")
        loss.text(5.0 + 0.85 * place, -0.6, label, color=color, ha="center", va="bottom", fontsize=8.6)
        difference = difference_in_float64(name)
        gradients.bar(place, difference, 0.55, color=color)
        gradients.text(place, difference * 2, f"{difference:.1e}", ha="center", va="bottom", fontweight="bold")
    loss.set_yticks(range(len(losses)), losses)
    loss.set(xlabel="nats per token", xlim=(2.4, 4.6), ylim=(len(losses) - 0.5, -0.5), title="Loss")
    loss.tick_params(axis="y", length=0)
    loss.grid(axis="x")
    gradients.axhline(1e-12, color=style.GRAY, linestyle="--", linewidth=1)
    gradients.text(-0.45, 2e-12, "limit of the test", color=style.MUTED, va="bottom")
    gradients.set_yscale("log")
    gradients.set_xticks(range(len(runs)), [label for label, _ in runs.values()])
    gradients.set(ylim=(1e-16, 1e3), xlim=(-0.5, 1.5), ylabel="of the largest gradient", title="Error of the gradient")
    powers = (-15, -12, -9, -6, -3, 0, 3)
    gradients.set_yticks([10.0**power for power in powers], [f"1e{power}" for power in powers])
    gradients.minorticks_off()
    return drawing
