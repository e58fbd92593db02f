"""Figures of the chapter on distributed data parallel."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import measured_value
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box, cells
from rankzero.ledger.hardware import HARDWARE


def labeled_cells(axes: Axes, x: float, y: float, texts: list[str], color: str, title: str) -> None:
    """Draws a gradient as a row of cells with its title above."""
    cells(axes, x, y, 5, [color] * len(texts), texts=texts, edge=style.PAPER)
    axes.text(x + 2.5 * len(texts), y - 0.8, title, ha="center", va="bottom", color=color)


@figure(
    "one-average",
    caption="One step on two ranks. The ranks start with equal weights, compute gradients of different rows, and take "
    "the same step with the average, so their weights are equal again.",
    description="Two rows of boxes, one per rank. Rank 0 takes rows 1 to 4 of a batch, rank 1 rows 5 to 8. Forward and "
    "backward give the gradients (1, 3) on rank 0 and (3, 5) on rank 1. A box across both ranks, the all-reduce, gives "
    "both ranks the sum (4, 8). Half of the sum, (2, 4), is the gradient of the same update on both ranks.",
)
def one_average() -> Figure:
    drawing, axes = style.new_figure(2.75)
    style.blank(axes, 120, 45)
    for rank, (top, gradient) in enumerate(((9, ["1", "3"]), (29, ["3", "5"]))):
        middle = top + 5
        axes.text(0, middle, f"rank {rank}", va="center", fontweight="bold")
        for row in range(8):
            used = row // 4 == rank
            color = style.ACTIVATIONS if used else style.PANEL
            box(axes, 13, top - 3 + 2 * row, 8, 1.6, color=color, edge=style.PAPER if used else style.GRID, line=0.5)
        arrow(axes, (22, middle), (27, middle))
        box(axes, 27.5, top, 17, 10, "forward,\nbackward", rounding=1)
        arrow(axes, (45, middle), (50, middle))
        labeled_cells(axes, 51, top + 2.5, gradient, style.GRADIENTS, "gradient")
        arrow(axes, (62, middle), (67, middle))
        arrow(axes, (80, middle), (85, middle), text="÷ 2", lift=1)
        labeled_cells(axes, 86, top + 2.5, ["2", "4"], style.GRADIENTS, "average")
        arrow(axes, (97, middle), (102, middle))
        box(axes, 102.5, top, 17, 10, "the same\nupdate", color=style.WEIGHTS, rounding=1)
    axes.text(17, 4.3, "rows of the batch", ha="center", va="bottom", color=style.ACTIVATIONS)
    box(axes, 67.5, 5, 12, 38, "all-\nreduce:\nthe sum\n4, 8", color=style.COMMUNICATION, rounding=1)
    return drawing


def ring_states(ranks: int) -> list[list[list[list[int]]]]:
    """State after each turn of a ring all-reduce: for each rank and chunk, the ranks whose numbers are in the sum."""
    state = [[[rank] for _ in range(ranks)] for rank in range(ranks)]
    states = [state]
    for turn in range(2 * (ranks - 1)):
        following = [[list(chunk) for chunk in chunks] for chunks in state]
        for rank in range(ranks):
            left, chunk = (rank - 1) % ranks, (rank - turn - 1) % ranks
            arrived = state[left][chunk]
            following[rank][chunk] = sorted({*arrived, *state[rank][chunk]}) if turn < ranks - 1 else list(arrived)
        state = following
        states.append(state)
    return states


@figure(
    "ring-all-reduce",
    caption="A ring all-reduce on three ranks. A cell names the ranks whose numbers it sums, and an orange frame marks "
    "the chunk that has just arrived. After four turns every chunk is complete on every rank, and each rank has sent "
    "[1.33 vectors](claim:ring-sends).",
    description="Five tables of three ranks by three chunks. At the start, each cell holds its own rank's number. "
    "After turns 1 and 2, one chunk per rank has grown to the sum of two and then of all three ranks. In "
    "turns 3 and 4, the complete chunks are copied to the other ranks. Below each table is what a rank "
    "has sent: 0, a third, two thirds, one, and four thirds of the vector.",
)
def ring_all_reduce() -> Figure:
    drawing, axes = style.new_figure(2.35)
    style.blank(axes, 122, 39)
    states = ring_states(3)
    names = ("start", "turn 1: add", "turn 2: add", "turn 3: copy", "turn 4: copy")
    for index, (name, state) in enumerate(zip(names, states, strict=True)):
        left = 12 + 22.6 * index
        axes.text(left + 9, 4, name, ha="center", va="bottom", fontweight="bold")
        for rank, chunks in enumerate(state):
            if index == 0:
                axes.text(0, 9 + 8 * rank, f"rank {rank}", va="center")
            for chunk, summed in enumerate(chunks):
                done = len(summed) == 3
                color = style.GREEN if done else style.SKY if len(summed) == 2 else style.PANEL
                arrived = index > 0 and chunk == (rank - index) % 3
                text = "all" if done else "+".join(map(str, summed))
                edge, line = (style.ORANGE, 2.2) if arrived else (style.PAPER, 0.8)
                box(axes, left + 6 * chunk + 0.2, 5.4 + 8 * rank, 5.6, 7, text, color=color, edge=edge, line=line,
                    size=9)  # fmt: skip
        sent = ("0", "⅓", "⅔", "1", "1⅓")[index]
        axes.text(left + 9, 31, sent, ha="center", va="top", fontsize=12)
    axes.text(0, 31.7, "sent", va="top")
    axes.text(66, 39, "vectors sent by each rank so far", ha="center", va="bottom", color=style.MUTED, fontsize=9.5)
    return drawing


def draw_node(axes: Axes, left: float, top: float, used: int, *, upper: bool) -> float:
    """Draws a node of 8 GPUs with a port for each, of which the first `used` take part; returns the GPUs' height."""
    box(axes, left, top, 164, 62, color=style.PAPER, edge=style.MUTED, rounding=4)
    gpus, ports = (top + 22, top + 48) if upper else (top + 26, top)
    for index in range(8):
        x, part = left + 6 + 19.2 * index, index < used
        box(axes, x, gpus, 16, 16, color=style.GRAY if part else style.PANEL, edge=style.GRID)
        box(axes, x + 2, ports, 12, 14, color=style.COMMUNICATION if part else style.PANEL, edge=style.GRID)
    return gpus + 8


def draw_rings(axes: Axes, left: float, ranks: int) -> None:
    """Draws two nodes whose first GPUs form rings of `ranks`; one of the rings is drawn whole."""
    h100, used = HARDWARE["h100"], ranks // 2
    total = h100.bandwidth(ranks, 8 // used, 8, 16)
    above, below = draw_node(axes, left, 20, used, upper=True), draw_node(axes, left, 136, used, upper=False)
    first, last = (left + 14 + 19.2 * index for index in (0, used - 1))
    for index in range(used):
        x = left + 14 + 19.2 * index
        arrow(axes, (x, 83), (x, 135), style="<|-|>", color=style.MUTED, head=7, line=1)
    shift = 0 if used > 1 else 4
    ring = ((first - shift, below), (first - shift, above), (last + shift, above), (last + shift, below))
    xs, ys = zip(*ring, ring[0], strict=True)
    axes.plot(xs, ys, color=style.ORANGE, linewidth=2.6, solid_joinstyle="round")
    axes.text(left + 82, 4, f"{ranks} ranks, {used} per node", ha="center", va="top", fontweight="bold", fontsize=11)
    axes.text(left + 6, 31, f"NVLink {h100.nvlink / 1e9:.0f} GB/s", va="center", fontsize=11)
    axes.text(left + 6, 188, "8 GPUs, 8 ports", va="center", fontsize=11)
    ports = f"{used} × {h100.network / 1e9:.0f} = " if used > 1 else ""
    axes.text(left + 82, 218, f"{ports}{total / 1e9:.0f} GB/s", ha="center", va="center", fontsize=11)


@figure(
    "rings-through-ports",
    caption="Two nodes of 8 H100s; each GPU has a network port (light blue). Left, 8 rings pass through all 16 GPUs. "
    "Each ring leaves a node by another port (one ring is orange), and the ports' bandwidths add up. Right, ranks that "
    "are alone in their nodes have one port.",
    description="Two drawings of two nodes, one above the other, with a row of 8 GPUs and a row of 8 ports each. Left, "
    "all ports are joined to the ports of the other node, and an orange ring runs through the upper row of GPUs, down "
    "by the last port, back through the lower row and up by the first port: 8 times 50 is 400 GB/s. Right, only the "
    "first GPU of each node takes part, with one port: 50 GB/s. NVLink in a node carries 450 GB/s.",
)
def rings_through_ports() -> Figure:
    drawing, axes = style.new_figure(3.15, width=style.NARROW)
    style.blank(axes, 360, 226)
    draw_rings(axes, 1, 16)
    draw_rings(axes, 195, 2)
    return drawing


def draw_schedule(axes: Axes, top: float, times: dict[str, float], buckets: int) -> None:
    """Draws forward, backward and the exchange of equal buckets, which are sent one after another once final."""
    forward, backward, exchange = times["forward"], times["backward"], times["exchange"]
    free = forward
    for bucket in range(buckets):
        start = forward + backward * bucket / buckets
        box(axes, start, top, backward / buckets, 8, color=style.ACTIVATIONS, edge=style.PAPER)
        free = max(free, start + backward / buckets)
        box(axes, free, top + 9, exchange / buckets, 8, color=style.COMMUNICATION, edge=style.PAPER)
        free += exchange / buckets
    box(axes, 0, top, forward, 8, "forward", color=style.PANEL, edge=style.MUTED)
    end = forward + backward
    axes.plot([end, free], [top + 19, top + 19], color=style.ORANGE, linewidth=2.5, solid_capstyle="butt")
    axes.text(free + 4, top + 13, f"waits {free - end:,.4g} ms", color=style.ORANGE, va="center", fontweight="bold")
    if buckets == 1:
        axes.text(forward + backward / 2, top + 4, "backward", ha="center", va="center", color=style.PAPER)
    name = "one bucket" if buckets == 1 else f"{buckets} buckets"
    axes.text(forward - 4, top + 13, f"exchange, {name}", ha="right", va="center", color=style.BLUE)


@figure(
    "buckets-over-backward",
    caption="The running example with one rank per node (50 GB/s), 16,384 tokens per rank and 400 TFLOP/s, drawn to "
    "scale. With one bucket a step waits [140 ms](claim:ddp-exchange-hidden) for the exchange; with 8 buckets it waits "
    "[17.5 ms](claim:ddp-exchange-hidden), for the last bucket alone.",
    description="Two schedules on one time axis in milliseconds. Above, forward takes 82, backward 164, and then one "
    "exchange of 140 in which nothing computes. Below, backward is cut into 8 parts; after each part a bucket of 17.5 "
    "is sent while the next part computes, and only the last bucket comes after the end of backward.",
)
def buckets_over_backward() -> Figure:
    times = measured_value("ddp-exchange-hidden")
    drawing, axes = style.new_figure(2.7)
    draw_schedule(axes, 2, times, 1)
    draw_schedule(axes, 30, times, 8)
    axes.set(xlim=(0, 465), ylim=(52, 0), xlabel="ms since the beginning of the step", yticks=[])
    axes.spines["left"].set_visible(False)
    return drawing


@figure(
    "slowest-rank",
    caption="Expected time of a step if each rank takes twice the usual time in 1 step of 100 or of 1,000. "
    "With 512 ranks and 1 late step in 100, nearly every step is late.",
    description="Two curves of the expected step time over the number of ranks, from 1 to 4,096 on a logarithmic axis. "
    "For delays in 1 step of 100 the curve rises from 1.01 to 1.47 at 64 ranks and 2.0 at 512. For delays in 1 step "
    "of 1,000 the curve rises from 1.0 to 1.4 at 512 ranks and 2.0 at 4,096.",
)
def slowest_rank() -> Figure:
    drawing, axes = style.new_figure(2.7)
    ranks = [2**power for power in range(13)]
    for probability, color, name, place in (
        (0.01, style.ORANGE, "late in 1 step of 100", (55, 1.52)),
        (0.001, style.BLUE, "late in 1 step of 1,000", (760, 1.42)),
    ):
        times = [2 - (1 - probability) ** count for count in ranks]
        axes.plot(ranks, times, "o-", color=color)
        side = "right" if probability == 0.01 else "left"
        axes.text(*place, name, color=color, ha=side, va="center")
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 8, 64, 512, 4096], ["1", "8", "64", "512", "4,096"])
    axes.minorticks_off()
    axes.set(xlabel="ranks", ylabel="step time, usual = 1", ylim=(0.95, 2.08))
    axes.grid(axis="y")
    return drawing
