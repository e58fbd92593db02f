"""Figures of the page of Lab 06."""

import re

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_text
from rankzero.figures.shapes import arrow, box

PHASES = {
    "data": style.AMBER,
    "forward": style.BLUE,
    "backward": style.PURPLE,
    "optimizer": style.GREEN,
    "idle": style.GRAY,
}


def phase_times(name: str) -> dict[str, float]:
    """Milliseconds per step by phase, from a recorded run."""
    rows = re.findall(rf"^({'|'.join(PHASES)}) +[\d.]+ +([\d.]+)$", recorded_text("06", name), re.MULTILINE)
    return {phase: float(milliseconds) for phase, milliseconds in rows}


def operation_shares(name: str) -> dict[str, float]:
    """Share of the self time by operation, from a recorded run."""
    rows = re.findall(r"^aten::(\w+) +[\d.]+ +[\d.]+ +([\d.]+)$", recorded_text("06", name), re.MULTILINE)
    return {operation: float(share) for operation, share in rows}


def draw_phases(axes: Axes, place: float, times: dict[str, float], height: float = 0.6) -> None:
    """Draws one step as a horizontal bar of its phases, in milliseconds."""
    left = 0.0
    for phase, color in PHASES.items():
        axes.barh(place, times[phase], height, left=left, color=color)
        left += times[phase]


@figure(
    "lab-06-first-run",
    caption="The recorded run: one step by phase, and its operations by self time. The parts "
    "[add up to the step](claim:lab-06-fractions-add-up), and one operation, the matrix product `mm`, takes two thirds "
    "of the self time.",
    description="Above, a horizontal bar of 37 ms: data 0.4, forward 12.0, backward 21.9, optimizer 2.4 and idle 0.2 "
    "ms. Below, bars of the share of self time: mm 0.67, then attention's backward 0.08, gelu_backward, attention, "
    "gelu and native_layer_norm, each below 0.05.",
)
def first_run() -> Figure:
    times = phase_times("first-run")
    drawing, (step, operations) = style.new_figure(3.7, rows=2, height_ratios=(1, 2.1))
    draw_phases(step, 0, times)
    left = 0.0
    for phase, milliseconds in times.items():
        middle, left = left + milliseconds / 2, left + milliseconds
        if milliseconds > 5:
            text = f"{phase} {milliseconds:.1f} ms"
            step.text(middle, 0, text, ha="center", va="center", color=style.PAPER, weight="bold")
        else:
            x, y, side = {
                "data": (0, 0.36, "left"),
                "optimizer": (left, 0.36, "right"),
                "idle": (left + 0.2, 0, "left"),
            }[phase]
            step.text(
                x, y, f"{phase} {milliseconds:.1f}", ha=side, va="center" if y == 0 else "bottom", color=PHASES[phase]
            )
    step.set(xlim=(0, 40), ylim=(-0.4, 0.75), xlabel="ms of one step", yticks=[])
    step.spines["left"].set_visible(False)
    shares = operation_shares("first-run")
    names = [name.replace("_scaled_dot_product_flash_attention_for_cpu", "attention") for name in shares]
    operations.barh(range(len(shares)), shares.values(), 0.66, color=style.BLUE)
    for place, share in enumerate(shares.values()):
        operations.text(share + 0.008, place, f"{share:.2f}", va="center")
    operations.set_yticks(range(len(names)), names)
    operations.invert_yaxis()
    operations.set(xlabel="share of the self time", xlim=(0, 0.76))
    operations.tick_params(axis="y", length=0)
    return drawing


@figure(
    "lab-06-break-it",
    caption="The first step beside the mean of five warm steps, both recorded. Forward grows most, because "
    "every operation is new; the first step makes [about 350 more calls](claim:lab-06-calls-of-a-step).",
    description="Two horizontal bars in milliseconds. The warm step takes 37 ms: forward 12.0, backward 21.9. The "
    "first step takes 49 ms: forward 19.9, backward 23.6. In the first step all phases are longer, forward most.",
)
def break_it() -> Figure:
    drawing, axes = style.new_figure(2.1)
    runs = {"warm step": "first-run", "first step": "no-warm-up"}
    for place, name in enumerate(runs.values()):
        times = phase_times(name)
        draw_phases(axes, place, times)
        for phase, start in (("forward", times["data"]), ("backward", times["data"] + times["forward"])):
            text = f"{phase} {times[phase]:.1f} ms"
            middle = start + times[phase] / 2
            axes.text(middle, place, text, ha="center", va="center", color=style.PAPER, weight="bold")
        total = sum(times.values())
        axes.text(total + 0.6, place, f"{total:.0f} ms", va="center", weight="bold")
    warm = phase_times("first-run")
    axes.text(sum(warm.values()) - 0.2, -0.34, "optimizer", ha="right", va="bottom", color=style.GREEN)
    axes.text(0, -0.34, "data", ha="left", va="bottom", color=style.AMBER)
    axes.text(sum(phase_times("no-warm-up").values()), 1.34, "idle", ha="right", va="top", color=style.GRAY)
    axes.set_yticks(range(len(runs)), runs)
    axes.set(xlabel="ms of one step", xlim=(0, 55), ylim=(1.75, -0.75))
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "lab-06-own-time",
    caption="A step with two threads: data on thread 2 overlaps forward for 2 ms. These 2 ms belong to forward alone, "
    "so the fractions of all phases add up to 1.",
    description="A step of 10 ms. On thread 1 forward runs from 0 to 6 ms. On thread 2 data runs from 4 to 8 ms. The "
    "last row shows to which phase each instant belongs: forward from 0 to 6 ms, data from 6 to 8, idle from 8 to 10.",
)
def own_time() -> Figure:
    drawing, axes = style.new_figure(2.5)
    rows = (
        ("thread 1", [(0, 6, "forward")]),
        ("thread 2", [(4, 8, "data")]),
        ("belongs to", [(0, 6, "forward"), (6, 8, "data"), (8, 10, "idle")]),
    )
    for place, (_, ranges) in enumerate(rows):
        for start, end, phase in ranges:
            text = phase if place < 2 else f"{phase} {(end - start) / 10:.1f}"
            axes.barh(place, end - start, 0.6, left=start, color=PHASES[phase])
            middle, text_color = 7 if place == 1 else (start + end) / 2, style.text_on(PHASES[phase])
            axes.text(middle, place, text, ha="center", va="center", color=text_color, weight="bold")
    axes.plot([4, 4, 6, 6], [-0.45, 2.45, 2.45, -0.45], color=style.MUTED, linestyle=":", linewidth=1.2)
    axes.text(6.1, 0, "the 2 ms of both count once", va="center", color=style.MUTED)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set(xlabel="ms since the step began", xlim=(0, 10.2), ylim=(2.6, -0.6), xticks=range(0, 11, 2))
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "lab-06-note",
    caption="The two hooks of `note`. The module's forward hook sees the output and puts a hook on that tensor; the "
    "tensor's hook sees the gradient in backward. Each stores a detached scalar tensor, and `stop()` removes both.",
    description="A module with an output tensor to its right. In forward, the module's hook reads the output 3, 4 and "
    "appends its size 3.54 to the list activations. In backward, the gradient 3, 4 reaches the output tensor, whose "
    "own hook appends the norm 5.0 to the list gradients. stop() removes both hooks.",
)
def note() -> Figure:
    drawing, axes = style.new_figure(2.75)
    style.blank(axes, 100, 42)
    axes.set_aspect("auto")
    box(axes, 3, 8, 20, 12, "module", size=10.5)
    box(axes, 47, 8, 24, 12, "output\n[3.0, 4.0]", color=style.PANEL, edge=style.BLUE, size=10.5)
    arrow(axes, (23, 11.5), (47, 11.5), color=style.BLUE, text="forward", lift=0.8, text_color=style.BLUE)
    arrow(axes, (97, 17), (71, 17), color=style.PURPLE, text="gradient [3.0, 4.0]", lift=0.8, text_color=style.PURPLE)
    arrow(axes, (47, 17), (23, 17), color=style.PURPLE)
    axes.text(35, 19, "backward", ha="center", va="top", color=style.PURPLE, fontsize=9)
    axes.text(13, 5.8, "module's forward hook", ha="center", va="bottom", color=style.BLUE)
    axes.text(59, 5.8, "hook on the output tensor", ha="center", va="bottom", color=style.PURPLE)
    arrow(axes, (13, 20), (13, 29), color=style.BLUE)
    arrow(axes, (59, 20), (59, 29), color=style.PURPLE)
    box(axes, 1, 29, 38, 7, "activations: [tensor(3.5355)]", edge=style.BLUE)
    box(axes, 43, 29, 34, 7, "gradients: [tensor(5.0)]", edge=style.PURPLE)
    axes.text(1, 40.5, "stop() calls remove() on both hooks", color=style.MUTED, va="center")
    return drawing
