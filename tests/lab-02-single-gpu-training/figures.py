"""Figures of the page of Lab 02."""

import math
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import shapes, style
from rankzero.figures.charts import measured_value
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


def bytes_over_two_steps() -> list[tuple[str, dict[str, float]]]:
    """Returns MB by role after each call of two steps, the second with the optimizer's state from the first."""
    weights, state = measured_value("lab-02-weights"), measured_value("adamw-state-appears-at-the-first-update")
    calls: list[tuple[str, dict[str, float]]] = []
    for step in (0, 1):
        for phase in ("forward", "backward", "update"):
            held = {
                "weights": weights,
                "optimizer": state["update"] if step else state[phase],
                "gradients": measured_value("lab-02-gradients-by-phase")[phase],
                "activations": measured_value("lab-02-activations-by-phase")[phase],
            }
            calls.append((phase, {role: size / 1e6 for role, size in held.items()}))
        calls.append(("clear", {**calls[-1][1], "gradients": 0.0}))
    return calls


@figure(
    "lab-02-two-steps",
    caption="Memory after each call of the first two steps of Lab 02's model, to scale. Forward fills memory with "
    "[activations](claim:lab-02-activations-by-phase), backward replaces them by gradients, and the first update adds "
    "[optimizer state](claim:adamw-state-appears-at-the-first-update) that stays.",
    description="Eight stacked bars: after forward, backward, update and clear of step 1, and again of step 2. Weights "
    "of 3.2 MB are in all bars. Activations of 26.4 MB are there after forward only. Gradients of 3.2 MB are there "
    "after backward and update. Optimizer state of 6.5 MB appears with the first update and stays, so that the second "
    "forward ends at 36.1 MB where the first ended at 29.6 MB.",
)
def two_steps() -> Figure:
    drawing, axes = style.new_figure(3.3)
    calls = bytes_over_two_steps()
    for index, (_, sizes) in enumerate(calls):
        place, base = index + 0.5 * (index > 3), 0.0
        for role, color in ROLES.items():
            axes.bar(place, sizes[role], 0.78, bottom=base, color=color)
            base += sizes[role]
        axes.text(place, base + 0.6, f"{base:.1f} MB", ha="center", va="bottom", fontsize=9, fontweight="bold")
    axes.text(0, 16, "activations", ha="center", va="center", color=style.PAPER, rotation=90)
    for height, role in ((24, "gradients"), (21.5, "optimizer state"), (19, "weights")):
        axes.text(2.1, height, role, ha="center", va="center", color=ROLES[role.split()[0]])
    places = [index + 0.5 * (index > 3) for index in range(8)]
    axes.set_xticks(places, [name for name, _ in calls])
    for middle, name in ((1.5, "step 1"), (6, "step 2")):
        axes.text(middle, 40.5, name, ha="center", fontweight="bold")
    axes.axvline(3.75, color=style.GRID, linewidth=1, linestyle=":")
    axes.set(ylabel="MB after the call", ylim=(0, 43), xlim=(-0.6, 8.1))
    axes.tick_params(axis="x", length=0)
    return drawing


@figure(
    "lab-02-first-run",
    caption="The recorded run. After forward, [activations](claim:lab-02-activations-by-phase) take most memory. "
    "The first update adds the optimizer's state, which stays. The loss begins near ln V, as if all V characters were "
    "equally probable.",
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
    axes.text(75, GUESS + 0.08, "ln V: a guess", color=style.MUTED, ha="center", va="bottom")
    axes.set(xlabel="step", ylabel="training loss, nats per token", ylim=(0, 6.5), xlim=(0, 262))
    axes.set_xticks(range(0, 201, 50))
    return drawing


LOSSES = (((4.0, 2.0, 1.0), (2.0, None, None)), ((3.0, 5.0, None),))  # of the exercise's example; None is padding


@figure(
    "lab-02-loss-by-position",
    caption="`evaluate` on the example of the exercise. Each position has two sums, of losses and of real tokens, and "
    "divides once, at the end. So every real token has the same weight in its position's mean, in any batch.",
    description="A grid of losses with three columns, the positions 0 to 2. Batch 1 has the rows 4, 2, 1 and 2, "
    "padding, padding; batch 2 has the row 3, 5, padding. Below each column stand the sum of its losses, 9, 7 and 1, "
    "the number of its real tokens, 3, 2 and 1, and their quotient, 3.0, 3.5 and 1.0.",
)
def loss_by_position() -> Figure:
    drawing, axes = style.new_figure(2.9)
    style.blank(axes, 20, 8.1)
    rows = [(batch, row) for batch, rows in enumerate(LOSSES) for row in rows]
    for position in range(3):
        axes.text(8.75 + 2.5 * position, 0.45, f"position {position}", ha="center", va="center", color=style.MUTED)
    for index, (batch, row) in enumerate(rows):
        top = 0.9 + 1.1 * index + 0.35 * batch
        for position, loss in enumerate(row):
            left = 7.5 + 2.5 * position
            if loss is None:
                shapes.box(axes, left, top, 2.5, 1.1, "padding", text_color=style.MUTED)
            else:
                shapes.box(axes, left, top, 2.5, 1.1, f"{loss:g}", color=style.BLUE, weight="bold")
    for height, name in ((2.0, "batch 1, two sequences"), (3.45 + 0.35, "batch 2, one sequence")):
        axes.text(7.1, height, name, ha="right", va="center")
    columns = [[row[position] for _, row in rows if row[position] is not None] for position in range(3)]
    for index, (name, values) in enumerate(
        (
            ("sum of losses", [f"{sum(column):g}" for column in columns]),  # type: ignore[arg-type]
            ("real tokens", [f"{len(column)}" for column in columns]),
            ("loss = sum / tokens", [f"{sum(column) / len(column):.1f}" for column in columns]),  # type: ignore[arg-type]
        )
    ):
        top, last = 5.1 + 0.95 * index, index == 2
        axes.text(7.1, top + 0.3, name, ha="right", va="center", fontweight="bold" if last else "normal")
        for position, value in enumerate(values):
            axes.text(
                8.75 + 2.5 * position, top + 0.3, value, ha="center", va="center",
                color=style.BLUE if last else style.INK, fontweight="bold" if last else "normal",
            )  # fmt: skip
    axes.plot((7.5, 15), (6.72, 6.72), color=style.MUTED, linewidth=0.8)
    return drawing


@figure(
    "lab-02-what-a-checkpoint-holds",
    caption="Each number of a resumed run, and what it depends on. The first loss needs weights, batch and random "
    "state only. The optimizer's averages act through the first update, so their absence shows in "
    "[the second loss](claim:averages-left-out-second-loss).",
    description="Four boxes on the left, the content of a checkpoint: random state, weights, step number, m and v. "
    "Arrows lead from weights, random state and, through the batch, the step number to the first loss. From the "
    "first loss, the averages and, through the learning rate, the step number, arrows lead to the new weights, and "
    "from these to the second loss.",
)
def what_a_checkpoint_holds() -> Figure:
    drawing, axes = style.new_figure(2.9)
    style.blank(axes, 26, 10.2)
    axes.text(2.6, 0.5, "checkpoint", ha="center", va="center", fontweight="bold")
    left = (
        ("random state", style.AMBER),
        ("weights", style.WEIGHTS),
        ("step number", style.GRAY),
        ("m and v", style.OPTIMIZER),
    )
    for index, (name, color) in enumerate(left):
        shapes.box(axes, 0.1, 1.2 + 2.3 * index, 5.0, 1.5, name, color=color, weight="bold")
    for (x, y), name in (((10.0, 2.35), "first loss"), ((15.2, 5.8), "first update"), ((20.6, 2.35), "second loss")):
        shapes.box(axes, x, y, 5.0, 1.5, name)
    for start, end in (
        ((5.1, 1.95), (10.0, 2.85)),
        ((5.1, 4.25), (10.0, 3.4)),
        ((5.1, 6.2), (10.6, 3.95)),
        ((13.6, 3.95), (16.6, 5.7)),
        ((5.1, 6.8), (15.2, 6.45)),
        ((5.1, 8.85), (15.2, 7.1)),
        ((18.8, 5.7), (21.8, 3.95)),
    ):
        shapes.arrow(axes, start, end)
    for x, y, text in ((7.2, 5.85, "batch"), (10.3, 7.0, "learning rate"), (10.3, 8.55, "averages"),
                       (15.9, 4.3, "gradients"), (21.2, 5.3, "new weights")):  # fmt: skip
        axes.text(x, y, text, va="center", ha="left", fontsize=9, color=style.MUTED)
    return drawing
