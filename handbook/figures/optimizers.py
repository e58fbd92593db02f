"""Figures of the chapter on optimizers."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure


@figure(
    "paths-on-a-ravine",
    caption="50 updates of three optimizers, each at its best rate, on a ravine that is 100 times more curved across "
    "than along. SGD still has [0.381](claim:paths-on-a-ravine) of its initial distance from the minimum, because the "
    "steep direction limits its rate. Momentum and Adam end [below 0.01](claim:paths-on-a-ravine).",
    description="Three panels with contour lines of a narrow ravine and the path of one optimizer from the left end "
    "toward the minimum. SGD jumps from wall to wall and stops less than two thirds of the way. Momentum swings "
    "widely, passes the minimum and returns. Adam moves along a smooth arc to the minimum.",
)
def paths_on_a_ravine() -> Figure:
    colors = {"SGD": style.ORANGE, "momentum": style.BLUE, "Adam": style.GREEN}
    drawing, rows = style.new_figure(2.7, columns=3, sharey=True)
    across = [step / 100 - 0.4 for step in range(81)]
    along = [step / 25 - 1.2 for step in range(49)]
    heights = [[(x**2 + 100 * y**2) / 2 for x in along] for y in across]
    for axes, (name, line) in zip(rows, measured_chart("paths-on-a-ravine").lines.items(), strict=True):
        axes.contour(along, across, heights, levels=[0.05, 0.2, 0.5, 1, 2, 4], colors=style.GRID, linewidths=0.9)
        x, y, _, _ = columns(line)
        axes.plot(x, y, "o-", color=colors[name], markersize=2.6, linewidth=1.1)
        axes.plot(0, 0, "+", color=style.INK, markersize=11, markeredgewidth=1.6)
        axes.set_title(name, color=colors[name])
        axes.set(xlim=(-1.15, 0.7), ylim=(-0.4, 0.4), xlabel="weight along the ravine", xticks=[-1, -0.5, 0, 0.5])
    rows[0].set_ylabel("weight across")
    return drawing


@figure(
    "steps-after-a-spike",
    caption="Length of Adam's steps before and after one batch whose gradients are 100 times too large. With β₂ = "
    "0.999 the next step is [10 times](claim:adam-after-one-bad-batch) the usual step, and 200 steps later a step is "
    "still [0.55](claim:adam-after-one-bad-batch) times the usual step. With β₂ = 0.95 steps have their usual length "
    "by then.",
    description="Step length, on a logarithmic axis, over updates before and after one bad batch. With beta2 0.999 the "
    "line jumps from 1 to 10, falls to 0.55 within 40 updates and stays near 0.6 until update 500. With beta2 0.95 it "
    "jumps to 2, falls to 0.4 and is back at 1 after about 170 updates.",
)
def steps_after_a_spike() -> Figure:
    drawing, axes = style.new_figure(3.0)
    for (name, line), color in zip(
        measured_chart("adam-after-one-bad-batch").lines.items(), (style.ORANGE, style.BLUE), strict=True
    ):
        x, size, _, _ = columns(line)
        axes.plot(x, size, color=color)
        place = {"xytext": (0, 9), "ha": "right"}
        style.label_line(axes, x[-1], size[-1], name, color, **place)
    axes.axhline(1, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    axes.set_yticks([0.25, 0.5, 1, 2, 5, 10], ["0.25", "0.5", "1", "2", "5", "10"])
    axes.minorticks_off()
    axes.set(xlabel="updates after the bad batch", ylabel="step, in usual steps", xlim=(-20, 500), ylim=(0.15, 14))
    axes.grid(axis="y")
    return drawing


@figure(
    "muon-singular-values",
    caption="Singular values of a 64 × 64 gradient, and of the update that Muon makes of this gradient. The gradient's "
    "largest value is 10 times its smallest; the update's values are all near 1, from [0.7 to "
    "1.1](claim:muon-evens-out-singular-values), so every direction gets a step of about the same size.",
    description="Two lines over the 64 singular values in order of size, on a logarithmic axis. The gradient's fall "
    "from 10 to 1. The update's stay between 0.7 and 1.1.",
)
def muon_singular_values() -> Figure:
    drawing, axes = style.new_figure(2.6)
    for (name, line), color in zip(
        measured_chart("muon-evens-out-singular-values").lines.items(), (style.ORANGE, style.BLUE), strict=True
    ):
        x, size, _, _ = columns(line)
        axes.plot(x, size, "o-", color=color, markersize=2.6, linewidth=1.1)
        style.label_line(axes, x[-1], size[-1], f"  {name}", color)
    axes.set_yscale("log")
    axes.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    axes.minorticks_off()
    axes.set(xlabel="singular value, in order of size", ylabel="size", xlim=(0, 73), ylim=(0.4, 13))
    axes.grid(axis="y")
    return drawing
