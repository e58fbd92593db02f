"""Figures of the chapter on profiling and the roofline."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow
from rankzero.ledger.hardware import HARDWARE

PHASES = {
    "data": style.AMBER,
    "forward": style.BLUE,
    "backward": style.PURPLE,
    "optimizer": style.GREEN,
    "idle": style.GRAY,
}
UPPER_LEFT: dict[str, Any] = {"xytext": (-8, 4), "ha": "right", "va": "bottom"}  # of a label, from its point
WIDTH = 4096  # of the matrices on the roofline
WORK = {  # FLOPs and bytes, as in the chapter's table
    "fused AdamW": (14, 28),
    "GELU": (10, 4),
    "square product, 256 wide": (2 * 256**3, 6 * 256**2),
    "square product, 4,096 wide": (2 * WIDTH**3, 6 * WIDTH**2),
}


@figure(
    "four-profiles",
    caption="One training step of Lab 02's model, divided into phases by processor time. Scripts A, B and C compute "
    "the same losses more slowly. The part that has grown says [where to look](claim:lab-06-patients-by-phase): "
    "between the phases, in the two passes, or at the data. Idle is time outside all phases.",
    description="Four horizontal bars, each divided into data, forward, backward, optimizer and idle, in units of the "
    "healthy step. The healthy step is mostly backward, then forward. Script A is 1.5 times as long: about a third of "
    "its step is idle. Script B is 1.4 times as long: forward and backward have grown. Script C is 2.3 times as long: "
    "more than half of its step is data.",
)
def four_profiles() -> Figure:
    chart = measured_chart("lab-06-patients-by-phase")
    runs = [str(point[0]) for point in chart.lines["data"]]
    drawing, axes = style.new_figure(2.7)
    for place in range(len(runs)):
        total, left = sum(line[place][1] for line in chart.lines.values()), 0.0
        for phase, color in PHASES.items():
            width = chart.lines[phase][place][1]
            axes.barh(place, width, 0.62, left=left, color=color)
            if width > 0.3:
                text = f"{phase}\n{width / total:.2f}"
                axes.text(left + width / 2, place, text, ha="center", va="center", color=style.PAPER, fontsize=9)
            left += width
        axes.text(total, place, f"  {total:.1f}", va="center", weight="bold")
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
            axes.text((start + end) / 2, row + 0.5, text, ha="center", va="center", color=style.PAPER, fontsize=9)


@figure(
    "a-read-in-the-step",
    caption="Host and GPU over one step, drawn for a host that queues work in half of the time that the GPU needs. A "
    "read of the loss between forward and backward ends the host's lead: the GPU is idle until backward is queued.",
    description="Two timelines of host and GPU. In the upper one the host queues forward and backward and then waits; "
    "the GPU runs forward and backward without a gap. In the lower one the host queues forward, waits in item() until "
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


def rows_of_a_layer(rows: int) -> float:
    """FLOPs per byte of `rows` rows times a bf16 matrix [4096, 4096]."""
    return 2 * rows * WIDTH**2 / (2 * (2 * rows * WIDTH + WIDTH**2))


@figure(
    "roofline-of-an-h100",
    caption="Roofline of an H100 in dense bf16. Left of the ridge at [295 FLOP/B](claim:ridge-points) memory limits an "
    "operation. More rows per product move a layer to the right (orange) until it reaches the flat roof.",
    description="Attainable TFLOP/s over FLOPs per byte, both axes logarithmic. The roof rises in proportion up to 989 "
    "TFLOP/s at 295 FLOP/B and is flat from there. On the rising part are fused AdamW at 0.5 FLOP/B, GELU at 2.5, a "
    "square product 256 wide at 85 and a layer 4,096 wide with 1, 16, 64 and 256 rows. On the flat part are the "
    "same layer with 1,024 rows and a square product 4,096 wide.",
)
def roofline_of_an_h100() -> Figure:
    h100 = HARDWARE["h100"]
    peak, bandwidth = h100.peaks[2] / 1e12, h100.hbm / 1e12

    def roof(intensity: float) -> float:
        return min(peak, intensity * bandwidth)

    drawing, axes = style.new_figure(3.9)
    ridge = peak / bandwidth
    axes.plot([0.25, ridge, 8000], [roof(0.25), peak, peak], color=style.INK, linewidth=2.2)
    axes.plot([ridge, ridge], [0.6, peak], color=style.MUTED, linestyle=":", linewidth=1)
    axes.text(ridge * 1.08, 0.75, f"ridge: {ridge:.0f} FLOP/B", color=style.MUTED)
    axes.text(ridge * 0.92, 0.75, "memory limits", ha="right", color=style.MUTED)
    axes.text(0.07, peak, f"peak: {peak:.0f} TFLOP/s (flat part)", va="bottom", color=style.INK)
    for rows in (1, 16, 64, 256, 1024):
        x = rows_of_a_layer(rows)
        axes.plot(x, roof(x), "o", color=style.ORANGE, markersize=7)
        name = "layer 4,096 wide, 1 row" if rows == 1 else f"{rows:,} rows"
        place = {256: UPPER_LEFT, 1024: {"xytext": (0, -9), "ha": "center", "va": "top"}}.get(rows, {"xytext": (9, -3)})
        style.label_line(axes, x, roof(x), name, style.ORANGE, **place)
    for name, (flops, moved) in WORK.items():
        x = flops / moved
        axes.plot(x, roof(x), "D", color=style.BLUE, markersize=7)
        if "4,096" in name:
            style.label_line(axes, x, roof(x), name, style.BLUE, xytext=(0, 9), ha="center", va="bottom")
        else:
            style.label_line(axes, x, roof(x), name, style.BLUE, **UPPER_LEFT)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    axes.set(xlim=(0.05, 8000), ylim=(0.6, 2600))
    axes.set(xlabel="arithmetic intensity, FLOPs per byte", ylabel="attainable TFLOP/s")
    axes.grid()
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


@figure(
    "gradient-over-depth",
    caption="Gradient at each of 30 tanh layers, relative to the last layer. The gradient reaches layer 1 as "
    "[10⁻⁸](claim:gradients-by-depth) of itself if the weights are small (gain 0.5), and enlarged thousands of times "
    "if they are large (gain 3). A residual connection with a norm keeps it within about ten times.",
    description="Five lines over layers 1 to 30 on a logarithmic axis; all end at 1 in layer 30. With a gain of 0.5 "
    "the line falls to 10 to the minus 8 at layer 1. With a gain of 1 it stays near 1. With a gain of 3 it rises to "
    "4,000 at layer 1. The two lines with a residual connection and a norm stay between 1 and 13.",
)
def gradient_over_depth() -> Figure:
    chart = measured_chart("gradients-by-depth")
    colors = {"0.5": style.ORANGE, "1": style.GRAY, "3": style.PURPLE}
    drawing, axes = style.new_figure(3.2)
    for name, line in chart.lines.items():
        x, sizes, *_ = columns(line)
        bounded = "residual" in name
        color = style.BLUE if bounded else colors[name]
        axes.plot(x, sizes, color=color, linestyle="--" if name.startswith("0.5,") else "-")
        if not bounded:
            axes.text(0.6, sizes[0], f"gain {name}", color=color, ha="right", va="center")
    axes.text(3, 0.2, "gain 0.5 (dashed) and 3,\nwith residual connection and norm", color=style.BLUE, va="top")
    axes.set_yscale("log")
    axes.set_yticks([1e-8, 1e-6, 1e-4, 1e-2, 1, 1e2, 1e4], ["10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "1", "10²", "10⁴"])
    axes.minorticks_off()
    axes.set_xticks([1, 5, 10, 15, 20, 25, 30])
    axes.set(xlabel="layer", ylabel="gradient / that of layer 30", xlim=(-3, 30.5), ylim=(3e-9, 3e4))
    axes.grid(axis="y")
    return drawing
