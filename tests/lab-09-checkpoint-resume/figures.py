"""Figures of the page of Lab 09."""

import re

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_run, recorded_text
from rankzero.figures.shapes import arrow, box


def saves(name: str) -> dict[int, float]:
    """Milliseconds for which training waited for each save of a recorded run, by its step."""
    rows = re.findall(r"^step +(\d+)/\d+  saving, training waited (\d+) ms", recorded_text("09", name), re.MULTILINE)
    return {int(step): float(wait) for step, wait in rows}


def step_times(name: str) -> dict[int, float]:
    """Milliseconds of each step of a run that was recorded with a line per step."""
    rows = re.findall(r"^step +(\d+)/\d+  loss .*?([\d.]+) ms", recorded_text("09", name), re.MULTILINE)
    return {int(step): float(duration) for step, duration in rows}


def kills(name: str) -> list[tuple[int, int]]:
    """The kills of a recorded trial: after which step, and from which step the run went on."""
    rows = re.findall(r"^ +\d+ +(\d+) +(\d+) +\d+$", recorded_text("09", name), re.MULTILINE)
    return [(int(at), int(first)) for at, first in rows]


@figure(
    "lab-09-moments-of-a-save",
    caption="Folders on disk at six moments of a save of step 75, which a thread writes while training continues. A "
    "kill at any of the six moments leaves finished checkpoints (blue), because the folder of step 75 gets its final "
    "name only when every rank has written. `run.json` holds the digests of all files. On disk, a step has six digits: "
    "step-000075.",
    description="Six columns of folders, each with the finished step-25 and step-50. Step 75 done, and copied to "
    "memory: nothing else. Rank 0 has written: a folder step-75.partial with one file. All have written: both "
    "ranks' files and run.json are in it. Renamed: the folder is step-75. Oldest removed: step-25 is gone. A row "
    "below says from which step a killed run resumes: 50 in the first four columns, 75 in the last two.",
)
def moments_of_a_save() -> Figure:
    drawing, axes = style.new_figure(2.7)
    style.blank(axes, 128, 45)
    moments = (
        ("step 75\ndone", (), False, False),
        ("copied to\nmemory", (), False, False),
        ("rank 0 has\nwritten", ("rank 0",), False, False),
        ("all have\nwritten", ("rank 0", "rank 1", "run.json"), False, False),
        ("renamed", ("rank 0", "rank 1", "run.json"), True, False),
        ("oldest\nremoved", ("rank 0", "rank 1", "run.json"), True, True),
    )
    for index, (name, files, renamed, removed) in enumerate(moments):
        left = 14 + 19.2 * index
        axes.text(left + 8, 6.4, name, ha="center", va="bottom", fontweight="bold")
        for place, step in enumerate((25, 50)):
            gone = step == 25 and removed
            color = style.PAPER if gone else style.BLUE
            label = "" if gone else f"step-{step}"
            box(axes, left, 8 + 5.6 * place, 16, 4.6, label, color=color, edge=style.GRID)
        label = "" if not files else "step-75" if renamed else "step-75\n.partial"
        color = style.BLUE if renamed else style.PANEL if files else style.PAPER
        box(axes, left, 19.2, 16, 7.2, label, color=color, edge=style.GRID)
        for place, file in enumerate(files):
            axes.text(left + 8, 28.8 + 3.6 * place, file, ha="center", va="center", color=style.INK)
        axes.text(left + 8, 43.2, "75" if renamed else "50", ha="center", va="center", fontweight="bold")
        if index:
            arrow(axes, (left - 3, 15), (left - 0.3, 15))
    axes.text(12, 43.2, "resumes\nfrom step", ha="right", va="center")
    axes.text(12, 28, "files in\nthe folder\nof step 75", ha="right", va="top")
    return drawing


@figure(
    "lab-09-steps-of-two-runs",
    caption="The time of each step in two recorded runs (gray), and on top of it the time for which training waited "
    "for a save (orange). Left: saves in the background, where training waits only for the copy. The next steps are "
    "longer, because the writing thread uses the same cores. Right: training waits until the save is on disk.",
    description="Two panels with a bar for each of steps 2 to 30, in milliseconds. Left, saves in the background: "
    "short orange parts on the bars of steps 10, 20 and 30. Right, saves that training waits for: orange parts several "
    "times as long.",
)
def steps_of_two_runs() -> Figure:
    drawing, panels = style.new_figure(2.6, columns=2, sharey=True)
    titles = {"background": "in the background", "waiting": "training waits (--sync-save)"}
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        durations = {step: duration for step, duration in step_times(name).items() if step > 1}
        axes.bar(list(durations), list(durations.values()), 0.8, color=style.GRAY)
        for step, wait in saves(name).items():
            axes.bar(step, wait, 0.8, bottom=durations[step], color=style.ORANGE)
            top = durations[step] + wait
            beside = durations.get(step + 1, 0) > top  # the next bar would cross centered digits
            x, side = (step + 0.4, "right") if beside else (step, "center")
            axes.text(x, top + 8, f"{wait:.0f}", ha=side, va="bottom", color=style.ORANGE)
        axes.set_title(title)
        axes.set(xlabel="step", xticks=[10, 20, 30], xlim=(0, 32), ylim=(0, 430))
        axes.grid(axis="y")
    panels[0].set(ylabel="ms")
    return drawing


@figure(
    "lab-09-five-kills",
    caption="The recorded training with five kills. Left: after each kill (cross) the run continues from its newest "
    "checkpoint, or from step 0 if there is none, so it computes some steps more than once. Right: its losses. They "
    "are equal bit for bit to those of the run without a kill.",
    description="Left, a line that rises with the number of steps computed and falls back at five kills, beside a "
    "straight line that reaches step 100 first. Right, the training loss of the run falls from 4.5 to 2.7.",
)
def five_kills() -> Figure:
    drawing, (left, right) = style.new_figure(2.8, columns=2)
    computed, at, line = 0, 0, [(0, 0)]
    for killed, first in kills("five-kills"):
        computed += killed - at
        line += [(computed, killed), (computed, first)]
        left.plot(computed, killed, "x", color=style.ORANGE, markersize=6)
        at = first
    line.append((computed + 100 - at, 100))
    left.plot([0, 100], [0, 100], color=style.GRAY, linewidth=1.2)
    left.plot(*zip(*line, strict=True), color=style.BLUE)
    style.label_line(left, 34, 78, "no kill", style.GRAY)
    style.label_line(left, line[-1][0] - 62, 80, "five kills", style.BLUE)
    left.set(xlabel="steps computed", ylabel="step", ylim=(0, 105), xlim=(0, line[-1][0] + 14))
    left.grid()
    steps, losses = zip(*recorded_run("09", "five-kills").training, strict=True)
    right.plot(steps, losses, "o-", color=style.BLUE, markersize=3.5)
    right.set(xlabel="step", ylabel="loss, nats per token")
    right.grid()
    return drawing


@figure(
    "lab-09-break-it",
    caption="A run that continues from step 50 without its position in the data. Left: its losses look like those of "
    "any run. Right: the differences between its losses and those of the run without a kill. They are 0 up to step 50, "
    "and not 0 after it.",
    description="Left, two loss curves that fall from 4.5 to 2.7 and are equal up to step 50, then close to each "
    "other. Right, their difference: zero up to step 50, then between about minus 0.3 and 0.3.",
)
def break_it() -> Figure:
    lines = measured_chart("lab-09-position-forgotten").lines
    drawing, (left, right) = style.new_figure(2.6, columns=2)
    steps, healthy, _, _ = columns(lines["no kill"])
    _, broken, _, _ = columns(lines["position forgotten"])
    left.plot(steps, healthy, color=style.BLUE, linewidth=1.2)
    left.plot(steps, broken, color=style.ORANGE, linewidth=1.0)
    style.label_line(left, 62, 3.5, "no kill", style.BLUE)
    style.label_line(left, 62, 3.9, "position forgotten", style.ORANGE)
    left.set(xlabel="step", ylabel="loss, nats per token")
    right.plot(steps, [b - a for a, b in zip(healthy, broken, strict=True)], color=style.ORANGE, linewidth=1.2)
    right.set(xlabel="step", ylabel="difference, nats per token")
    for axes in (left, right):
        axes.axvline(50, color=style.GRAY, linewidth=0.8, linestyle="--")
        axes.grid()
    return drawing
