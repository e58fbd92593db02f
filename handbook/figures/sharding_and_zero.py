"""Figures of the chapter on sharding and ZeRO."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.ring_turns import Cell, all_gather_turns, draw_turns, reduce_scatter_turns
from rankzero.figures.shapes import arrow, box
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.models import Part, find_preset, weights_of
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
    "layers at a time and peaks at [7.5 layers](claim:peak-by-wrapping). The model as one group holds 18 in "
    "forward: its shards (2), all weights (8) and the gather's buffer (8). The end of forward frees the buffer, then "
    "the whole gradients of 8 layers add up to 18 again, above the 16 layers of DDP.",
    description="Four lines over the 16 layer computations of a step, forward then backward. A group per layer with "
    "resharding stays near 5 and rises to 7.5 as shards of gradients add up. Kept whole, it rises to 12 at the end of "
    "forward and falls again. One group stays at 18 in forward, falls to 12 when the "
    "gather's buffer is freed, and returns to 18 at the end. DDP stays at 8 in "
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
    axes.text(9.75, 15.3, "the gather's\nbuffer is freed", va="bottom", color=style.ORANGE, fontsize=9)
    axes.axvline(8.5, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set_xticks([1, 4.5, 8, 9, 12.5, 16], ["layer 1", "forward", "8", "8", "backward", "layer 1"])
    axes.set(ylabel="weights and gradients in memory, in layers", ylim=(0, 20), xlim=(0.5, 16.5))
    axes.yaxis.label.set_fontsize(9.5)
    axes.grid(axis="y")
    return drawing


def partial_sum(_: int, summed: Cell) -> tuple[str, str]:
    """Text and color of a cell of gradients: the ranks whose numbers it sums."""
    if len(summed) == 3:
        return "sum", style.GRADIENTS
    return "+".join(str(rank) for rank in sorted(summed)), style.PANEL if len(summed) == 1 else style.SKY


@figure(
    "two-halves-turn-by-turn",
    caption="Three ranks, three parts of a tensor. Reduce-scatter: a cell names the ranks whose gradients it sums, and "
    "a rank keeps one part of the sum. All-gather: from one part per rank, every rank gets all three. In each turn "
    "every rank sends one part to the next rank; a thick frame marks the part that has just arrived.",
    description="Two strips of three tables with a row per rank and a column per part. Reduce-scatter: before, each "
    "rank holds three parts with its own number. After turn 1 each rank holds two parts, one of them a sum of two "
    "ranks. After turn 2 rank 0 holds part 0, rank 1 part 1 and rank 2 part 2, each the complete sum. All-gather: "
    "before, each rank holds one part, after turn 1 two, after turn 2 all three. In each half a rank has sent two "
    "thirds of the tensor.",
)
def two_halves_turn_by_turn() -> Figure:
    drawing, axes = style.new_figure(3.6, width=style.NARROW)
    style.blank(axes, 360, 258)
    draw_turns(axes, 0, reduce_scatter_turns(3), "Reduce-scatter", partial_sum)
    draw_turns(axes, 134, all_gather_turns(3), "All-gather", lambda part, _: (f"w{part}", style.WEIGHTS))
    return drawing


Span = tuple[str, float, float]  # name, start, end


def step_schedule(blocks: int, forward: float, transfer: float) -> tuple[list[Span], list[Span]]:
    """Returns what the network and what the GPU does in a step of `fully_shard`, in the unit of the given times.

    `forward` is the time of a block's forward pass, half of the time of its backward pass. Each gather (G) and each
    reduce-scatter (R) takes the time `transfer`. A gather is issued when the block before it begins. The network
    sends one message after another, in the order in which they are issued.
    """
    network: list[Span] = []
    compute: list[Span] = []

    def send(name: str, ready: float) -> float:
        start = max(ready, network[-1][2] if network else 0.0)
        network.append((name, start, start + transfer))
        return start + transfer

    def run(name: str, gathered: float, time: float) -> float:
        start = max(gathered, compute[-1][2] if compute else 0.0)
        compute.append((name, start, start + time))
        return start

    begin = 0.0
    for block in range(1, blocks + 1):
        begin = run(f"{block}", send(f"G{block}", begin), forward)
    gathered = send(f"G{blocks}", compute[-1][2])
    for block in range(blocks, 0, -1):
        begin = run(f"{block}", gathered, 2 * forward)
        if block > 1:
            gathered = send(f"G{block - 1}", begin)
        send(f"R{block}", compute[-1][2])
    return network, compute


PARTS: dict[str, dict[str, str]] = {
    "gather": {"color": style.COMMUNICATION, "edge": style.PAPER},
    "reduce-scatter": {"color": style.GRADIENTS, "edge": style.PAPER},
    "forward": {"color": style.PANEL, "edge": style.MUTED},
    "backward": {"color": style.ACTIVATIONS, "edge": style.PAPER},
    "waits": {"color": style.PAPER, "edge": style.GRAY, "hatch": "////"},
}


def draw_step(axes: Axes, tokens: int) -> None:
    """Draws a step of four blocks of Llama-3-8B on 8 H100s, in ms, by the boxed formula: 2P bytes, 2Pn FLOPs."""
    h100, blocks = HARDWARE["h100"], 4
    config = find_preset("llama-3-8b")
    parameters = sum(w.copies * w.numbers() for w in weights_of(config, Part(1)) if w.in_block)
    rate, bandwidth = h100.flops(2, autocast=False) / 2, h100.bandwidth(8, 1, 8, 8)
    times = 1e3 * 2 * parameters * tokens / rate, 1e3 * 2 * parameters / bandwidth
    network, compute = step_schedule(blocks, *times)
    end, before = network[-1][2], 0.0
    for index, (name, start, stop) in enumerate(compute):
        if start > before:
            box(axes, before, 1, start - before, 0.7, **PARTS["waits"])
        look = PARTS["forward" if index < blocks else "backward"]
        box(axes, start, 1, stop - start, 0.7, name, size=11, **look)
        before = stop
    box(axes, before, 1, end - before, 0.7, **PARTS["waits"])
    for name, start, stop in network:
        look = PARTS["gather" if name[0] == "G" else "reduce-scatter"]
        box(axes, start, 0, stop - start, 0.7, name[1:], size=11, **look)
    waits = end - sum(stop - start for _, start, stop in compute)
    sign = "≥" if tokens >= rate / bandwidth else "<"
    axes.set_title(f"n = {tokens:,} {sign} {rate / bandwidth:,.0f}: waits {waits:.1f} of {end:.1f} ms", fontsize=11)
    axes.set(ylim=(1.75, -0.1), yticks=[0.35, 1.35])
    axes.set_yticklabels(["network", "GPU"])
    axes.tick_params(labelsize=11)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


@figure(
    "gathers-run-ahead",
    caption="One step of four blocks of Llama-3-8B on 8 H100s over NVLink, by the formula below, with gradients in "
    "bf16. A number names the block. From [1,099 tokens](claim:tokens-that-hide-a-gather) per rank on, the GPU waits "
    "only for the first gather of each pass and for the last reduce-scatter; with fewer tokens it waits before nearly "
    "every block.",
    description="Two time charts with a row for the network and a row for the GPU. Above, with 1,536 tokens per rank, "
    "blocks 1 to 4 compute one after another in forward and 4 to 1 in backward, while the network gathers 1, 2, 3 "
    "and 4, then gathers 4 and 3, reduces 4, gathers 2, reduces 3, gathers 1, and reduces 2 and 1; the GPU waits at "
    "the beginning of each pass and at the end. Below, with 768 tokens, each block computes for less time than "
    "its transfers take, and the GPU waits before nearly every block.",
)
def gathers_run_ahead() -> Figure:
    drawing, panels = style.new_figure(3.5, rows=2, width=style.NARROW, sharex=True)
    for axes, tokens in zip(panels, (1536, 768), strict=True):
        draw_step(axes, tokens)
    panels[1].autoscale_view(scaley=False)
    panels[1].set(xticks=range(0, 20, 5))
    panels[1].set_xlabel("ms since the beginning of the step", fontsize=11)
    handles = [
        Rectangle((0, 0), 1, 1, fc=look["color"], ec=style.MUTED, lw=0.6, hatch=look.get("hatch"))
        for look in PARTS.values()
    ]
    drawing.legend(handles, PARTS, loc="outside lower center", ncols=3, handlelength=1, fontsize=11)
    return drawing


@figure(
    "hybrid-two-by-four",
    caption="Hybrid sharding on 2 nodes of 4 ranks. The four ranks of a node share the states; blue is the quarter "
    "that a rank holds. Gathers and reduce-scatters stay in the node. Only the reduced quarter of the gradients is "
    "all-reduced between nodes, by the ranks with the same shard.",
    description="Two boxes, one per node, with four ranks each: 0 to 3 in node 0, 4 to 7 in node 1. Each rank has a "
    "strip of four cells, of which its own is filled: the first for ranks 0 and 4, the second for ranks 1 and 5, and "
    "so on. A bar across each node says all-gather and reduce-scatter. Four double arrows join rank 0 with rank 4, 1 "
    "with 5, 2 with 6 and 3 with 7, labeled all-reduce.",
)
def hybrid_two_by_four() -> Figure:
    drawing, axes = style.new_figure(3.4, width=style.NARROW)
    style.blank(axes, 360, 245)
    for node in range(2):
        top = 150 * node
        box(axes, 1, top + 1, 358, 92, color=style.PAPER, edge=style.MUTED, rounding=5)
        axes.text(10, top + 12, f"node {node}", va="center", fontweight="bold", fontsize=11)
        bar = top + (68 if node == 0 else 22)
        text = "all-gather, reduce-scatter: 4 ranks, NVLink"
        box(axes, 10, bar, 340, 18, text, color=style.COMMUNICATION, edge=style.PAPER, size=11)
        for shard in range(4):
            left, y = 10 + 87 * shard, top + (22 if node == 0 else 46)
            box(axes, left, y, 79, 40, color=style.PANEL, edge=style.GRID, rounding=3)
            axes.text(left + 39.5, y + 11, f"rank {4 * node + shard}", ha="center", va="center", fontsize=11)
            for part in range(4):
                color = style.WEIGHTS if part == shard else style.PAPER
                box(axes, left + 9.5 + 15 * part, y + 21, 15, 13, color=color, edge=style.MUTED)
    for shard in range(4):
        middle = 10 + 87 * shard + 39.5
        arrow(axes, (middle, 95), (middle, 149), style="<|-|>", color=style.MUTED, line=1.6)
        axes.text(middle + 4, 122, "all-\nreduce\nof ¼", va="center", fontsize=11, linespacing=1.0)
    return drawing
