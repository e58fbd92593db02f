"""Figures of the chapter on learning rate and schedules."""

import math

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart, measured_value
from rankzero.figures.figure import figure

STEPS, WARM_UP, DECAY = 100, 10, 20
COLORS = {
    "constant": style.GRAY,
    "step": style.PURPLE,
    "linear": style.GREEN,
    "cosine": style.BLUE,
    "WSD": style.ORANGE,
}


def rate_share(shape: str, update: float, warm_up: int = WARM_UP, decay: int = DECAY) -> float:
    """Learning rate of an update of STEPS, in shares of the peak; `decay` is the number of WSD's last updates."""
    share = 1.0
    if shape == "step":
        share = 1.0 if update < 50 else 0.1 if update < 80 else 0.01
    elif shape == "linear":
        share = 1 - update / STEPS
    elif shape == "cosine":
        share = 0.5 * (1 + math.cos(math.pi * update / STEPS))
    elif shape == "WSD":
        share = min(1.0, (STEPS - update) / decay)
    return min(1, (update + 1) / warm_up) * share


@figure(
    "schedule-shapes",
    caption="Five schedules of 100 updates with the same warm-up of 10 updates. All but the constant one end near 0; "
    "they differ in how long the rate stays high. WSD is short for warm-up, stable, decay.",
    description="Five lines of the learning rate over 100 updates. All rise within 10 updates. The constant line "
    "stays at the peak. WSD stays at the peak until update 80 and falls straight to 0. The step schedule drops to a "
    "tenth at update 50 and to a hundredth at 80. The linear line falls evenly; the cosine bends through one half at "
    "update 50.",
)
def schedule_shapes() -> Figure:
    drawing, axes = style.new_figure(3.1)
    updates = [t / 4 for t in range(4 * STEPS + 1)]
    for name, color in COLORS.items():
        axes.plot(updates, [rate_share(name, update) for update in updates], color=color)
    places = {
        "constant": (92, 1.05),
        "WSD": (85, 0.55),
        "cosine": (35, 0.82),
        "linear": (18, 0.68),
        "step": (64, 0.16),
    }
    for name, (x, y) in places.items():
        axes.text(x, y, name, color=COLORS[name], ha="center", va="center", fontsize=9.5)
    axes.axvline(WARM_UP, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.text(WARM_UP + 1, 0.06, "warm-up ends", color=style.MUTED, fontsize=9)
    axes.set(xlabel="update", ylabel="rate, in shares of the peak", xlim=(0, STEPS), ylim=(0, 1.12))
    axes.grid(axis="y")
    return drawing


@figure(
    "steps-in-a-valley",
    caption="Gradient descent on a valley of curvature 10, at five rates. Below 0.1 the weight approaches the minimum "
    "from one side, between 0.1 and 0.2 from both sides. At 0.2 it jumps to the same distance forever, and above 0.2 "
    "it moves away.",
    description="The weight over 12 updates from a start at 1. At rate 0.05 it halves in each update. At 0.1 it is 0 "
    "after one. At 0.19 it alternates in sign and shrinks slowly. At 0.2 it alternates between 1 and -1. At 0.21 it "
    "alternates and grows to 3.",
)
def steps_in_a_valley() -> Figure:
    drawing, panels = style.new_figure(2.5, columns=5, sharey=True)
    colors = (style.BLUE, style.BLUE, style.GREEN, style.AMBER, style.ORANGE)
    for axes, rate, color in zip(panels, (0.05, 0.1, 0.19, 0.2, 0.21), colors, strict=True):
        axes.axhline(0, color=style.MUTED, linewidth=0.8)
        axes.plot(range(13), [(1 - 10 * rate) ** t for t in range(13)], "o-", color=color, markersize=3, linewidth=1.1)
        axes.set_title(f"rate {rate:g}", color=color)
        axes.set(xlabel="update", xticks=[0, 4, 8, 12], ylim=(-3.3, 3.3))
    panels[0].set_ylabel("weight")
    return drawing


@figure(
    "range-test",
    caption="Left: a range test multiplies the rate by a factor in each of 100 steps; its loss is lowest at "
    "[0.03](claim:range-test-against-runs). Right: whole runs of 100 steps with four peak rates. The run with 0.03 "
    "ends nearest to the lowest possible loss, [0.07 nats](claim:range-test-against-runs) above it; the run with a "
    "tenth of that rate ends far above it.",
    description="Left: loss over the learning rate on a logarithmic axis, flat at 3.5 up to 0.001, lowest at 1.6 near "
    "0.03, and above 3.5 near 0.5. A dotted line marks the lowest possible loss at 1.1. Right: loss above it of whole "
    "runs: 0.69 at a peak of 0.003, 0.11 at 0.01, 0.07 at 0.03 and 0.08 at 0.1.",
)
def range_test() -> Figure:
    drawing, (left, right) = style.new_figure(2.9, columns=2)
    lines = measured_chart("range-test-against-runs").lines
    rates, losses, _, _ = columns(lines["range test"])
    left.plot(rates, losses, color=style.BLUE)
    lowest = measured_value("range-test-against-runs")["lowest loss at"]
    left.plot([lowest], [min(losses)], "o", color=style.ORANGE, markersize=6)
    left.text(lowest, min(losses) - 0.12, f"{lowest:.2f}", color=style.ORANGE, ha="center", va="top")
    floor = columns(lines["floor"])[1][0]
    left.axhline(floor, color=style.MUTED, linewidth=0.9, linestyle=":")
    left.text(1.2e-4, floor - 0.08, "lowest possible loss", color=style.MUTED, va="top", fontsize=9)
    left.set_xscale("log")
    left.set_xticks([1e-4, 1e-3, 1e-2, 1e-1, 1], ["0.0001", "0.001", "0.01", "0.1", "1"])
    left.minorticks_off()
    left.set(xlabel="learning rate of the step", ylabel="loss, nats per token", ylim=(0.6, 4.4))
    left.set_title("one run, rate rising")
    ends = {peak: value for peak, value in measured_value("range-test-against-runs").items() if peak[0].isdigit()}
    for place, (peak, value) in enumerate(ends.items()):
        right.bar(place, value, 0.6, color=style.ORANGE if peak == "0.03" else style.BLUE)
        right.text(place, value + 0.02, f"{value:.2f}", ha="center", va="bottom")
    right.set_xticks(range(len(ends)), ends)
    right.set(xlabel="peak rate", ylabel="nats above the lowest loss", ylim=(0, 0.82))
    right.set_title("four whole runs")
    return drawing
