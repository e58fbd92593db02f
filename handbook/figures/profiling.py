"""Figures of the chapter on profiling."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow

PHASES = {
    "data": style.AMBER,
    "forward": style.BLUE,
    "backward": style.PURPLE,
    "optimizer": style.GREEN,
    "idle": style.GRAY,
}


@figure(
    "four-profiles",
    caption="One training step of Lab 02's model, divided into phases by processor time, in units of the healthy step. "
    "Scripts A, B and C compute the same losses more slowly. The part that has grown says "
    "[where to look](claim:lab-06-patients-by-phase): between the phases, in the two passes, or at the data. Idle is "
    "time outside all phases.",
    description="Four horizontal bars, each divided into data, forward, backward, optimizer and idle, with the length "
    "of each part in healthy steps. The healthy step is mostly backward, then forward. The step of script A has the "
    "same parts and a long idle part after them. In script B forward and backward are longer. In script C a "
    "long data part comes first, and the other parts are as in the healthy step.",
)
def four_profiles() -> Figure:
    chart = measured_chart("lab-06-patients-by-phase")
    runs = [str(point[0]) for point in chart.lines["data"]]
    drawing, axes = style.new_figure(2.7)
    for place in range(len(runs)):
        left = 0.0
        for phase, color in PHASES.items():
            width = chart.lines[phase][place][1]
            axes.barh(place, width, 0.62, left=left, color=color)
            if width > 0.3:
                text = f"{phase}\n{width:.2f}"
                axes.text(
                    left + width / 2, place, text, ha="center", va="center", color=style.text_on(color), fontsize=9
                )
            left += width
        axes.text(left, place, f"  {left:.2f}", va="center", weight="bold")
    axes.set_yticks(range(len(runs)), [run if run.startswith("script") else f"{run} step" for run in runs])
    axes.set(xlabel="time of one step, in healthy steps", ylim=(len(runs) - 0.5, -0.75))
    axes.text(1, -0.36, "optimizer", ha="right", va="bottom", color=style.GREEN)
    axes.margins(x=0.06)
    axes.tick_params(axis="y", length=0)
    return drawing


def draw_lane(axes: Axes, row: float, name: str, ranges: list[tuple[float, float, str, str]]) -> None:
    """Draws one row of a timeline: ranges of start, end, text and color."""
    axes.text(-1, row + 0.5, name, ha="right", va="center")
    for start, end, text, color in ranges:
        idle = {"hatch": "////", "edgecolor": style.ORANGE, "linewidth": 0.8} if text == "idle" else {}
        look: dict[str, Any] = {"facecolor": color} | idle
        axes.add_patch(Rectangle((start, row), end - start, 1, **look))
        if text and text != "idle":
            ink = style.text_on(color)
            axes.text((start + end) / 2, row + 0.5, text, ha="center", va="center", color=ink, fontsize=9)


@figure(
    "a-read-in-the-step",
    caption="Host and GPU over one step, drawn for a host that queues work in less than half of the GPU's time. After "
    "a read of the loss between forward and backward, the GPU is idle until backward's first kernel is queued.",
    description="Two timelines of host and GPU. Above, the host queues forward and backward and then waits; "
    "the GPU runs forward and backward without a gap. Below, the host queues forward, waits in item() until "
    "the GPU has finished forward, then queues backward; the GPU has a gap between the passes and ends later.",
)
def a_read_in_the_step() -> Figure:
    drawing, axes = style.new_figure(2.7)
    style.blank(axes, 50, 6.4)
    axes.set(xlim=(-7, 51), aspect="auto")
    wait, queue, forward, backward = style.GRAY, style.GREEN, style.BLUE, style.PURPLE
    axes.text(0, -0.1, "no read: one wait at the end", va="bottom", weight="bold")
    draw_lane(axes, 0.1, "host", [(0, 8, "queue fwd", queue), (8, 17, "queue bwd", queue), (17, 46, "wait", wait)])
    draw_lane(axes, 1.2, "GPU", [(2, 20, "forward", forward), (20, 46, "backward", backward)])
    axes.text(0, 3.5, "loss.item() between forward and backward", va="bottom", weight="bold")
    reading = [(0, 8, "queue fwd", queue), (8, 20, "item() waits", style.ORANGE), (20, 29, "queue bwd", queue)]
    draw_lane(axes, 3.7, "host", [*reading, (29, 48, "wait", wait)])
    gap = (20, 22, "idle", "none")
    draw_lane(axes, 4.8, "GPU", [(2, 20, "forward", forward), gap, (22, 48, "backward", backward)])
    axes.text(21, 5.95, "idle", ha="center", va="top", color=style.ORANGE)
    arrow(axes, (40, 6.2), (48, 6.2))
    axes.text(39.5, 6.2, "time", ha="right", va="center", color=style.MUTED)
    return drawing


@figure(
    "backward-to-forward",
    caption="Time of backward over time of forward in warm steps of Lab 02's GPT, on one thread of a CPU. The ratio of "
    "FLOPs is 2 for every batch; the ratio of times [is lower](claim:backward-to-forward-by-tokens) for small batches, "
    "whose products are too small to take most of the time.",
    description="A line of the ratio over the tokens in the batch, from 1 to 256, with its spread. It is lowest for 1 "
    "token and approaches, but stays below, the dashed line at 2.",
)
def backward_to_forward() -> Figure:
    chart = measured_chart("backward-to-forward-by-tokens")
    x, median, low, high = columns(chart.lines["CPU"])
    drawing, axes = style.new_figure(2.6)
    axes.axhline(2, color=style.MUTED, linestyle="--", linewidth=1)
    axes.text(1, 2.04, "ratio of FLOPs", color=style.MUTED, va="bottom")
    axes.plot(x, median, "o-", color=style.BLUE)
    axes.fill_between(x, low, high, color=style.BLUE, alpha=0.2, linewidth=0)
    style.label_line(axes, x[-1], median[-1], "ratio of times", style.BLUE)
    axes.set_xscale("log", base=4)
    axes.set_xticks(x, [f"{tokens:.0f}" for tokens in x])
    axes.minorticks_off()
    axes.set(xlabel=chart.x, ylabel="backward / forward", ylim=(0, max(2.4, *high)))
    axes.grid(axis="y")
    return drawing
