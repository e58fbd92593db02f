"""Figures of the page of Lab 08."""

import re

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_run, recorded_text
from rankzero.figures.ring_turns import Cell, all_gather_turns, draw_turns, reduce_scatter_turns
from rankzero.figures.shapes import arrow, box

WAYS = {"reshard": "reshard", "no reshard": "no\nreshard", "DDP": "DDP"}


def table_row(name: str, way: str, columns: int) -> list[float]:
    """Numbers of a way's row, with that many columns, in the tables that the starter prints before it trains."""
    for line in re.findall(rf"^{way} (.*)$", recorded_text("08", name), re.MULTILINE):
        numbers = re.findall(r"\d+\.?\d*", line.replace("each rank", ""))
        if len(numbers) == columns:
            return [float(number) for number in numbers]
    raise AssertionError(f"recording {name} has no row of {columns} numbers for {way}")


def difference_of_new_weights(name: str) -> float:
    """Relative difference of the weights after one update in float64 that the starter printed before a run."""
    (number,) = re.findall(r"^float64 +new weights .* (\S+)$", recorded_text("08", name), re.MULTILINE)
    return float(number)


# ------------------------------------------------------------------------------------------------- one step of a group
def draw_held(axes: Axes, left: float, top: float, weights: str, gradients: str, own: range) -> None:
    """Draws what a rank holds of four weights and their gradients: `weights` and `gradients` are "", "shard", "whole".

    A cell that the rank does not hold is an empty frame.
    """
    for row, (kind, color) in enumerate(((weights, style.WEIGHTS), (gradients, style.GRADIENTS))):
        for index in range(4):
            held = kind == "whole" or (kind == "shard" and index in own)
            borrowed = held and row == 0 and index not in own
            area = (style.SKY if borrowed else color) if held else style.PAPER
            box(axes, left + 3 * index, top + 4.2 * row, 3, 3.2, color=area, edge=style.GRID, line=0.8)


@figure(
    "lab-08-one-step",
    caption="One step of one block with four weights on two ranks. Each rank holds two weights and gathers two (light) "
    "for the block's forward and backward. Whole gradients exist only until the reduce-scatter.",
    description="Six moments, for two ranks, each with a row of four weights and a row of four gradients. Before the "
    "step, rank 0 holds weights 1 and 2, rank 1 weights 3 and 4. After an all-gather both ranks hold all four weights "
    "for forward; then two borrowed weights are freed. While other blocks run, each rank holds two weights. A second "
    "all-gather brings four weights back for backward, which makes all four gradients on each rank. A reduce-scatter "
    "leaves each rank two gradients, and the borrowed weights are freed. Each rank updates its two weights.",
)
def one_step() -> Figure:
    drawing, axes = style.new_figure(2.4)
    style.blank(axes, 122, 39)
    moments = (
        ("before", "shard", ""),
        ("forward", "whole", ""),
        ("other blocks", "shard", ""),
        ("backward", "whole", "whole"),
        ("reduced", "shard", "shard"),
        ("updated", "shard", "shard"),
    )
    changes = ("all-gather", "free", "all-gather", "reduce-scatter", "update")
    for index, (name, weights, gradients) in enumerate(moments):
        left = 17 + 18.2 * index
        axes.text(left + 6, 3.2, name, ha="center", va="bottom", fontweight="bold")
        for rank, top in enumerate((6, 22)):
            draw_held(axes, left, top, weights, gradients, range(2 * rank, 2 * rank + 2))
        if index < len(changes):
            draw_change(axes, left + 15.1, changes[index])
        held = 4 * (2 if weights == "shard" else 4) + 4 * {"": 0, "shard": 2, "whole": 4}[gradients]
        axes.text(left + 6, 35.5, f"{held} B", ha="center", va="top")
    for rank, top in enumerate((6, 22)):
        axes.text(0, top - 0.2, f"rank {rank}", ha="left", va="bottom", fontweight="bold")
        axes.text(15.5, top + 1.6, "weights", ha="right", va="center", color=style.WEIGHTS)
        axes.text(15.5, top + 5.8, "gradients", ha="right", va="center", color=style.GRADIENTS)
    axes.text(15.5, 35.5, "each holds", ha="right", va="top")
    return drawing


def draw_change(axes: Axes, middle: float, name: str) -> None:
    """Draws what leads from one moment to the next: a collective as a bar across both ranks, all else as an arrow."""
    if "-" in name:
        box(axes, middle - 2, 5, 4, 26.4, color=style.COMMUNICATION, rounding=0.6)
        text_color = style.text_on(style.COMMUNICATION)
        axes.text(middle, 18.2, name, rotation=90, ha="center", va="center", fontsize=9, color=text_color)
    else:
        arrow(axes, (middle - 2.4, 18.2), (middle + 2.4, 18.2), text=name, lift=0.6)


def gradient_sum(part: int, summed: Cell) -> tuple[str, str]:
    """Text and color of a cell: the sum of the gradients of the ranks in it, where rank r has (r + 1) * (1, 2, 3)."""
    color = {1: style.PANEL, 3: style.GRADIENTS}.get(len(summed), style.SKY)
    return str(sum((rank + 1) * (part + 1) for rank in summed)), color


@figure(
    "lab-08-two-collectives",
    caption="The two collectives around a ring of three ranks; a thick frame marks a part that has just arrived. The "
    "gradients are (1, 2, 3), (2, 4, 6) and (3, 6, 9). Divided by 3, the sums 6, 12 and 18 are the mean.",
    description="Two strips of three tables with a row per rank and a column per part. All-gather: before, rank r "
    "holds weight r alone; after turn 1 each rank holds two weights, after turn 2 all three. Reduce-scatter: before, "
    "the ranks hold (1, 2, 3), (2, 4, 6) and (3, 6, 9); after turn 1 each rank holds two parts, one of them a sum of "
    "two ranks; after turn 2 ranks 0, 1 and 2 hold 6, 12 and 18. In each collective a rank has sent two thirds "
    "of the tensor.",
)
def two_collectives() -> Figure:
    drawing, axes = style.new_figure(3.6, width=style.NARROW)
    style.blank(axes, 360, 258)
    draw_turns(axes, 0, all_gather_turns(3), "All-gather: weights", lambda part, _: (f"w{part}", style.WEIGHTS))
    draw_turns(axes, 134, reduce_scatter_turns(3), "Reduce-scatter: gradients", gradient_sum)
    return drawing


# ----------------------------------------------------------------------------------------------------- recorded runs
@figure(
    "lab-08-first-run",
    caption="The recorded run on two ranks. A rank holds [half as much](claim:lab-08-shares-of-a-rank) as with "
    "DDP. With resharding a step's messages are [2.97 times the weights](claim:lab-08-messages-of-a-step). The losses "
    "are those of Lab 02's single process.",
    description="Left, stacked bars of MiB on each rank after a step: 6.17 with and without resharding, 12.33 with "
    "DDP. Middle, bars of the MiB of whole weights when forward ends, 0.08, 3.08 and 3.08, beside bars of the MiB "
    "of messages in a step, 9.17, 6.17 and 3.08. Right, the training loss falls from 4.53 at step 1 to 2.65 at step "
    "100; the points lie in the circles of Lab 02.",
)
def first_run() -> Figure:
    drawing, (held, sent, loss) = style.new_figure(3.1, columns=3, width_ratios=(0.95, 1.3, 0.9))
    draw_held_by_way(held)
    draw_whole_and_sent(sent)
    alone = [point for point in recorded_run("02", "first-run").training if point[0] <= 100]
    loss.plot(*zip(*recorded_run("08", "first-run").training, strict=True), "o-", color=style.BLUE)
    loss.plot(*zip(*alone, strict=True), "o", color=style.ORANGE, markersize=9, fillstyle="none", markeredgewidth=1.5)
    loss.text(36, 4.35, "Lab 08", color=style.BLUE)
    loss.text(36, 3.95, "Lab 02", color=style.ORANGE)
    loss.set(xlabel="step", ylabel="nats per token", ylim=(0, 5), xlim=(-6, 108), title="Training loss")
    return drawing


def draw_held_by_way(axes: Axes) -> None:
    """Draws MiB on each rank after a step by way of training, stacked by role."""
    roles = (("weights", style.WEIGHTS), ("gradients", style.GRADIENTS), ("averages", style.OPTIMIZER))
    for height, (role, color) in zip((8, 9.5, 11), roles, strict=True):
        axes.text(0.5, height, role, ha="center", color=color)
    for place, way in enumerate(WAYS):
        *sizes, total = table_row("first-run", way, 4)
        bottom = 0.0
        for (_, color), size in zip(roles, sizes, strict=True):
            axes.bar(place, size, 0.7, bottom=bottom, color=color)
            bottom += size
        axes.text(place, total + 0.2, f"{total:.2f}", ha="center", va="bottom", fontweight="bold")
    axes.set_xticks(range(len(WAYS)), list(WAYS.values()))
    axes.set(ylabel="MiB on each rank", ylim=(0, 14), xlim=(-0.5, 2.65), title="Held after a step")


def draw_whole_and_sent(axes: Axes) -> None:
    """Draws MiB of whole weights when forward ends, and of the messages of a step, by way of training."""
    for place, way in enumerate(WAYS):
        _, whole, _, _, messages = table_row("first-run", way, 5)
        for shift, size, color in ((-0.2, whole, style.WEIGHTS), (0.2, messages, style.COMMUNICATION)):
            axes.bar(place + shift, size, 0.38, color=color)
            axes.text(place + shift * 1.15, size + 0.15, f"{size:.2f}", ha="center", va="bottom", fontsize=8.5)
    words = (
        ("whole weights\nwhen forward ends", style.WEIGHTS, 9.9),
        ("messages of the step", style.COMMUNICATION, 8.3),
    )
    for name, color, y in words:
        axes.text(2.37, y, name, ha="right", va="center")
        axes.plot(2.5, y, "s", color=color, markersize=7)
    axes.set_xticks(range(len(WAYS)), list(WAYS.values()))
    axes.set(ylabel="MiB", ylim=(0, 10.8), xlim=(-0.5, 2.6), title="In a step")


@figure(
    "lab-08-break-it",
    caption="The optimizer made before sharding [updates no weight](claim:lab-08-optimizer-made-first), so the loss "
    "stays at the loss of a guess. The comparison before step 1 shows the bug: the new weights differ by the learning "
    "rate, 0.001.",
    description="Left, training loss over 100 steps: the healthy run falls from 4.53 to 3.25 at step 50 and 2.65 at "
    "step 100; the broken run is at 4.49 at step 50, where its first save fails with a KeyError. Right, the relative "
    "difference of the weights after one update in float64, on a logarithmic axis: 2e-14 for the healthy run, below "
    "the limit of 1e-12, and 1e-3 for the broken run.",
)
def break_it() -> Figure:
    drawing, (loss, weights) = style.new_figure(2.9, columns=2, width_ratios=(1.25, 1))
    runs = {
        "first-run": ("made after\nsharding", style.BLUE, "-"),
        "optimizer-before-sharding": ("made before\nsharding", style.ORANGE, "--"),
    }
    for place, (name, (_, color, line)) in enumerate(runs.items()):
        points = recorded_run("08", name).training
        loss.plot(*zip(*points, strict=True), f"o{line}", color=color)
        difference = difference_of_new_weights(name)
        weights.bar(place, difference, 0.55, color=color)
        weights.text(place, difference * 2, f"{difference:.1e}", ha="center", va="bottom", fontweight="bold")
        if name != "first-run":
            style.label_line(loss, *points[-1], "first save: KeyError", color)
    loss.text(24, 4.68, "optimizer made before sharding", color=style.ORANGE, ha="left", va="bottom")
    loss.text(22, 3.3, "made after", color=style.BLUE, ha="right", va="bottom")
    loss.set(xlabel="step", ylabel="nats per token", ylim=(0, 5.3), xlim=(-4, 106), title="Training loss")
    weights.axhline(1e-12, color=style.GRAY, linestyle="--", linewidth=1)
    weights.text(-0.45, 2e-12, "limit of the test", color=style.MUTED, va="bottom")
    weights.set_yscale("log")
    weights.set_xticks(range(len(runs)), [label for label, _, _ in runs.values()])
    weights.set(ylim=(1e-16, 1e1), xlim=(-0.5, 1.5), ylabel="of the largest weight", title="Weights after one update")
    powers = (-15, -12, -9, -6, -3, 0)
    weights.set_yticks([10.0**power for power in powers], [f"1e{power}" for power in powers])
    weights.minorticks_off()
    return drawing


# ---------------------------------------------------------------------------------------------------------- exercises
@figure(
    "lab-08-storage-over-a-step",
    caption="Bytes of one module's whole weights over a step, for `sharded_forward`. Your function runs only in "
    "forward; hooks do the work of backward. `reshard` empties the storage between forward and backward.",
    description="Two lanes over time. With reshard the storage of the whole weights is full from the gather to the "
    "end of the module's forward, empty while later modules run forward and backward, full again from the second "
    "gather to the reduce-scatter, then empty. Without reshard it is full from the gather to the reduce-scatter. "
    "Below, three events: the function returns, backward reaches the module, the module's gradient is complete.",
)
def storage_over_a_step() -> Figure:
    drawing, axes = style.new_figure(2.2)
    style.blank(axes, 124, 39)
    gather, returns, reached, complete, end = 16, 46, 76, 108, 122
    for name, top, spans in (
        ("reshard", 5, ((gather, returns), (reached, complete))),
        ("no reshard", 18, ((gather, complete),)),
    ):
        axes.text(0, top + 4, name, va="center", fontweight="bold")
        box(axes, gather, top, end - gather, 8, color=style.PAPER, edge=style.GRID)
        for start, stop in spans:
            box(axes, start, top, stop - start, 8, color=style.SKY, edge=style.SKY)
            box(axes, start, top, 8, 8, "gather", color=style.COMMUNICATION, edge=style.PAPER, size=9)
    for start, stop, name in (
        (gather + 8, returns, "forward"),
        (returns, reached, "later modules"),
        (reached + 8, complete, "backward"),
    ):
        axes.text((start + stop) / 2, 3.6, name, ha="center", va="bottom", color=style.MUTED)
    axes.text((returns + reached) / 2, 22, "in memory", ha="center", va="center", color=style.text_on(style.SKY))
    axes.text((returns + reached) / 2, 9, "0 bytes", ha="center", va="center", color=style.MUTED)
    axes.text((complete + end) / 2, 9, "0 B", ha="center", va="center", color=style.MUTED)
    for at, name in (
        (returns, "sharded_forward\nreturns"),
        (reached, "backward reaches\nthe module: hook"),
        (complete, "gradient complete:\nhook, reduce-scatter"),
    ):
        axes.plot([at, at], [4.2, 30], color=style.INK, linewidth=1, linestyle=":")
        axes.text(at, 31, name, ha="center", va="top")
    return drawing


@figure(
    "lab-08-load-part",
    caption="Ten numbers, saved by three ranks and loaded by two. Rank 1 keeps numbers 6 to 10, which lie in two "
    "of the three files.",
    description="Two rows over ten cells. Above, three files: part-0 with numbers 1 to 4, part-1 with 5 to 8, part-2 "
    "with 9 and 10. Below, two shards: rank 0 with 1 to 5, rank 1 with 6 to 10. Arrows lead from the last three "
    "numbers of part-1 and from both of part-2 to rank 1.",
)
def load_part() -> Figure:
    drawing, axes = style.new_figure(1.75)
    style.blank(axes, 124, 30)
    wide, first, gap = 9.2, 27, 2.5
    counts, start, begin = (4, 4, 2), 5, 0
    for rank, count in enumerate(counts):
        left = first + begin * wide + gap * rank
        axes.text(left + count * wide / 2, 3.4, f"part-{rank}.bin", ha="center", va="bottom")
        for index in range(begin, begin + count):
            read = index >= start
            color = style.BLUE if read else style.PANEL
            place = left + (index - begin) * wide
            box(axes, place, 4.2, wide, 6, f"{index + 1}", color=color, edge=style.PAPER)
        low, high = max(begin, start), begin + count
        if low < high:
            middle = (low + high) / 2 * wide + first
            arrow(axes, (middle + gap * rank, 10.6), (middle + gap, 17.6), color=style.BLUE)
        begin += count
    for index in range(10):
        read = index >= start
        color = style.BLUE if read else style.PANEL
        place = first + index * wide + gap * read
        box(axes, place, 18, wide, 6, f"{index + 1}", color=color, edge=style.PAPER)
    for rank in range(2):
        axes.text(first + (2.5 + 5 * rank) * wide + gap * rank, 25, f"rank {rank} of 2", ha="center", va="top")
    axes.text(0, 7.2, "saved on 3 ranks", va="center", fontweight="bold")
    axes.text(0, 21, "loaded on 2", va="center", fontweight="bold")
    return drawing
