"""Figures of the page of Lab 02."""

import math
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import RecordedRun, recorded_run

ROLES = {
    "weights": style.WEIGHTS,
    "optimizer": style.OPTIMIZER,
    "gradients": style.GRADIENTS,
    "activations": style.ACTIVATIONS,
}
GUESS = math.log(96)  # loss of a model that guesses among the text's 96 characters


def draw_memory(axes: Axes, run: RecordedRun) -> None:
    """Draws the first step's memory after each phase, stacked by role."""
    for place, (phase, sizes) in enumerate(run.memory.items()):
        tops = list(accumulate(sizes[role] for role in ROLES))
        for (role, color), top in zip(ROLES.items(), tops, strict=True):
            axes.bar(place, sizes[role], 0.62, bottom=top - sizes[role], color=color)
            if phase == "forward" and role == "activations":
                axes.text(place, top - sizes[role] / 2, role, ha="center", va="center", color=style.PAPER, rotation=90)
        axes.text(place, tops[-1] + 0.4, f"{tops[-1]:.1f} MiB", ha="center", fontweight="bold")
    for role, height in (("optimizer state", 20), ("gradients", 18), ("weights", 16)):
        axes.text(1.5, height, role, ha="center", color=ROLES[role.split()[0]])
    axes.set_xticks(range(len(run.memory)), [f"after {phase}" for phase in run.memory])
    axes.set(ylabel="MiB", ylim=(0, 32), title="Memory in the first step")


@figure(
    "lab-02-first-run",
    caption="The recorded run. After forward, [activations](claim:lab-02-activations-by-phase) take most memory. "
    "The first update adds the optimizer's state for good. The loss begins at ln V, that of a guess.",
    description="Left, three stacked bars of the first step's memory: after forward 28.2 MiB, most of it activations; "
    "after backward 6.2 MiB, weights and gradients; after the update 12.3 MiB, with the optimizer's state. Right, the "
    "training loss falls from 4.53 at step 1 to about 2.0 at step 600, and the validation loss ends slightly above it.",
)
def first_run() -> Figure:
    run = recorded_run("02", "first-run")
    drawing, (memory, loss) = style.new_figure(3.2, columns=2, width_ratios=(1.1, 1))
    draw_memory(memory, run)
    loss.axhline(GUESS, color=style.GRAY, linestyle="--", linewidth=1)
    loss.text(600, GUESS + 0.05, "ln V: a guess", color=style.MUTED, ha="right", va="bottom")
    loss.plot(*zip(*run.training, strict=True), "o-", color=style.BLUE)
    loss.plot(*zip(*run.validation, strict=True), "D", color=style.ORANGE, markersize=6)
    loss.text(240, 1.95, "training", color=style.BLUE)
    loss.text(600, run.validation[-1][1] + 0.22, "validation", color=style.ORANGE, ha="right")
    loss.set(xlabel="step", ylabel="nats per token", ylim=(0, 5.2), title="Loss")
    return drawing


@figure(
    "lab-02-break-it",
    caption="Three runs of 200 steps that differ in one line. Cleared too late, the loss stays where it began; never "
    "cleared, it falls and then climbs [above the loss of a guess](claim:never-clearing-climbs).",
    description="Training loss over 200 steps. The healthy run falls from 4.5 to about 2.5. The run that clears the "
    "gradients between backward and update stays at 4.5. The run that never clears them falls to about 3.5, then "
    "climbs above 5.",
)
def break_it() -> Figure:
    drawing, axes = style.new_figure(3.0)
    runs = (
        ("first-run", style.BLUE, "cleared before backward"),
        ("clear-too-late", style.GRAY, "cleared after backward"),
        ("never-clear", style.ORANGE, "never cleared"),
    )
    for name, color, label in runs:
        points = [point for point in recorded_run("02", name).training if point[0] <= 200]
        axes.plot(*zip(*points, strict=True), "o-", color=color)
        style.label_line(axes, *points[-1], label, color, va="top" if name == "clear-too-late" else "center")
    axes.axhline(GUESS, color=style.GRAY, linestyle="--", linewidth=1)
    axes.text(260, GUESS + 0.08, "ln V: a guess", color=style.MUTED, ha="right", va="bottom")
    axes.set(xlabel="step", ylabel="training loss, nats per token", ylim=(0, 6.5), xlim=(0, 262))
    axes.set_xticks(range(0, 201, 50))
    return drawing
