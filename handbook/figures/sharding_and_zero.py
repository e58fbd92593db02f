"""Figures of the chapter on sharding and ZeRO."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.ledger.predict import states_per_rank
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")
COLORS = (style.GRAY, style.GREEN, style.ORANGE, style.BLUE)


def held(zero: int, ranks: int, parameters: float = 7e9) -> float:
    """GB of weights, gradients and optimizer state on each rank, in the mixed recipe with AdamW."""
    return states_per_rank(parameters, RECIPES["mixed"], OPTIMIZERS["adamw"], zero=zero, ranks=ranks) / 1e9


@figure(
    "states-per-rank",
    caption="Weights, gradients and optimizer state of 7 billion parameters on each rank, at "
    "[16 bytes per parameter](claim:bytes-per-parameter). More ranks do not help DDP. ZeRO-1 and 2 approach a floor "
    "of 4 and 2 bytes per parameter; ZeRO-3 has no floor.",
    description="Four curves of GB per rank over 1 to 64 ranks, on logarithmic axes. DDP stays at 112 GB, above the "
    "line of an 80 GB device. ZeRO-1 falls to about 29 GB and flattens, ZeRO-2 to about 16 GB, ZeRO-3 falls in a "
    "straight line to 1.75 GB.",
)
def states_of_each_rank() -> Figure:
    drawing, axes = style.new_figure(3.2)
    counts = [1, 2, 4, 8, 16, 32, 64]
    for zero, (name, color) in enumerate(zip(STAGES, COLORS, strict=True)):
        sizes = [held(zero, ranks) for ranks in counts]
        axes.plot(counts, sizes, "o-", color=color)
        style.label_line(axes, 64, sizes[-1], f"{name}: {sizes[-1]:.3g} GB", color)
    axes.axhline(80, color=style.MUTED, linestyle="--", linewidth=1)
    axes.text(24, 76, "memory of an 80 GB GPU", color=style.MUTED, va="top")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_yticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
    axes.minorticks_off()
    axes.set(xlabel="ranks N", ylabel="GB on each rank", ylim=(1.4, 160), xlim=(0.9, 200))
    axes.grid(axis="y")
    return drawing


def draw_stage(axes: Axes, zero: int) -> None:
    """Draws 16 bytes per parameter as a strip for each of 4 ranks; what a rank holds is filled."""
    ranks, wide = 4, 2.4
    for role, (first, size, color, from_stage) in enumerate(
        ((0, 2, style.WEIGHTS, 3), (2, 2, style.GRADIENTS, 2), (4, 12, style.OPTIMIZER, 1))
    ):
        for rank in range(ranks):
            left = rank * (wide + 0.5)
            axes.add_patch(Rectangle((left, first), wide, size, facecolor="none", edgecolor=style.GRID, linewidth=0.8))
            part = (rank * size / ranks, size / ranks) if zero >= from_stage else (0, size)
            axes.add_patch(Rectangle((left, first + part[0]), wide, part[1], facecolor=color))
        if zero == 0:
            name = ("weights, 2 B", "gradients, 2 B", "optimizer state, 12 B")[role]
            axes.text(-0.6, first + size / 2, name, ha="right", va="center", color=color)
    for rank in range(ranks):
        axes.text(rank * (wide + 0.5) + wide / 2, 16.4, str(rank), ha="center", va="top", color=style.MUTED)
    axes.text(5.55, -0.5, f"{STAGES[zero]}: {held(zero, 4, 1e9):g} B", ha="center", va="bottom", fontweight="bold")
    axes.set(xlim=(-0.2, 11.4), ylim=(18.2, -2.2))
    axes.set_axis_off()


@figure(
    "who-holds-what",
    caption="The 16 bytes of each parameter on 4 ranks, to scale: a rank holds the filled part. Each stage of ZeRO "
    "keeps a single copy of one more role; [measured](claim:zero-held-on-real-ranks), a rank of 4 holds 16, 7, 5.5 and "
    "4 bytes per parameter.",
    description="Four panels with a strip per rank. With DDP all strips are full. With ZeRO-1 each rank holds another "
    "quarter of the optimizer state, which is three quarters of the strip; with ZeRO-2 also another quarter of the "
    "gradients; with ZeRO-3 also another quarter of the weights.",
)
def who_holds_what() -> Figure:
    drawing, panels = style.new_figure(2.7, columns=4)
    for zero, axes in enumerate(panels):
        draw_stage(axes, zero)
    drawing.supxlabel("rank", fontsize=9.5, color=style.MUTED)
    return drawing


@figure(
    "whole-weights-over-a-step",
    caption="Memory of one step of eight layers on 4 ranks, measured at each layer. Resharding keeps a few whole "
    "layers at a time and peaks at [7.5 layers](claim:peak-by-wrapping). The model as one group peaks at 18, above "
    "the 16 layers of DDP.",
    description="Four lines over the 16 layer computations of a step, forward then backward. A group per layer with "
    "resharding stays near 5 and rises to 7.5 as shards of gradients add up. Kept whole, it rises to 12 at the end of "
    "forward and falls again. One group stays at 18 in forward and returns to 18 at the end. DDP stays at 8 in "
    "forward and rises to 16.",
)
def whole_weights_over_a_step() -> Figure:
    drawing, axes = style.new_figure(3.4)
    lines = measured_chart("peak-by-wrapping").lines
    looks = {
        "one group": (style.ORANGE, "one group: the model", 4.5, 18.4),
        "not sharded": (style.GRAY, "DDP", 2, 8.3),
        "each, kept whole": (style.AMBER, "a group per layer, kept whole", 5, 12.4),
        "each a group": (style.BLUE, "a group per layer, resharded", 4.5, 3.5),
    }
    for name, (color, label, place, height) in looks.items():
        x, sizes, _, _ = columns(lines[name])
        axes.plot(x, sizes, "o-", color=color)
        axes.text(place, height, label, ha="center", va="bottom", color=color)
    axes.axvline(8.5, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set_xticks([1, 4.5, 8, 9, 12.5, 16], ["layer 1", "forward", "8", "8", "backward", "layer 1"])
    axes.set(ylabel="weights and gradients in memory, in layers", ylim=(0, 20), xlim=(0.5, 16.5))
    axes.yaxis.label.set_fontsize(9.5)
    axes.grid(axis="y")
    return drawing
