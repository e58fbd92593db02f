"""Figures of the page of snippets."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box


@figure(
    "places-of-snippets",
    caption="The snippets of this page in the order in which a program needs them. The upper row runs once, the lower "
    "row in every step.",
    description="Two rows of boxes. Upper row, once: freeze, shard, parameter groups, load. Lower row, in every step: "
    "learning rate, 16 bits, recompute, accumulate and clip, save. Arrows lead from left to right in each row.",
)
def places_of_snippets() -> Figure:
    drawing, axes = style.new_figure(2.1)
    style.blank(axes, 25, 7.2)
    rows = {
        "once": ("freeze", "shard", "groups", "load"),
        "each step": ("rate", "16 bits", "recompute", "accumulate,\nclip", "save"),
    }
    for row, (name, names) in enumerate(rows.items()):
        y = 0.5 + 3.5 * row
        axes.text(0, y + 1.25, name, va="center", fontweight="bold")
        for index, text in enumerate(names):
            x = 3.9 + 4.25 * index
            box(axes, x, y, 3.6, 2.5, text, color=style.BLUE if row else style.PANEL)
            if index:
                arrow(axes, (x - 0.65, y + 1.25), (x, y + 1.25))
    return drawing


@figure(
    "runs-per-layer",
    caption="Forward passes of each of 8 layers in one step with `checkpoint_sequential` and 4 segments. The last "
    "segment runs [once](claim:snippets-runs-per-layer), because backward begins with it.",
    description="Eight bars. The first six, in three segments of two layers, have height 2; the last two have height "
    "1.",
)
def runs_of_layers() -> Figure:
    drawing, axes = style.new_figure(2.0)
    points = measured_chart("snippets-runs-per-layer").lines["runs"]
    colors = [style.ORANGE if point[1] > 1 else style.BLUE for point in points]
    axes.bar([str(point[0]) for point in points], [point[1] for point in points], 0.7, color=colors)
    for place in (1.5, 3.5, 5.5):
        axes.axvline(place, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set(xlabel="layer; dotted lines part the segments", ylabel="forward passes", yticks=[0, 1, 2])
    return drawing
