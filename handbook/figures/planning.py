"""Figures of the chapter on planning."""

from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box
from rankzero.ledger.ledger import Kind
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.pipeline_schedule import Action, begin_times, gpipe, order
from rankzero.ledger.plan.plan import Plan, make_plan

MEMORY = {
    Kind.WEIGHTS: style.WEIGHTS,
    Kind.GRADIENTS: style.GRADIENTS,
    Kind.OPTIMIZER: style.OPTIMIZER,
    Kind.ACTIVATIONS: style.ACTIVATIONS,
    Kind.TEMPORARY: style.TEMPORARY,
    Kind.COMMUNICATION: style.COMMUNICATION,
}
TIME = {
    "compute": style.BLUE,
    "recompute": style.SKY,
    "tensor": style.ORANGE,
    "bubble": style.GRAY,
}


def plans() -> dict[str, Plan]:
    """The chapter's layouts of Llama-3-70B on 1,024 H100s."""
    inside: dict[str, Any] = {"tensor": 8, "sequence_parallel": True}
    layouts = {
        "1,024 shards": Layout(data=1024, zero=3, checkpointing="block"),
        "8 × 128 shards": Layout(data=1024, zero=3, shard=128, checkpointing="block"),
        "16 × 8 shards,\n8 tensor": Layout(data=128, zero=3, shard=8, checkpointing="block", **inside),
        "16 × 8 tensor,\n8 stages": Layout(data=16, pipeline=8, micro_batches=32, checkpointing="block", **inside),
    }
    return {name: make_plan("llama-3-70b", layout) for name, layout in layouts.items()}


def draw_parts(axes: Axes, place: int, parts: dict[str, float], colors: dict[str, str]) -> float:
    """Draws one horizontal stacked bar and returns its end."""
    ends = list(accumulate(parts.values()))
    for color, size, end in zip(colors.values(), parts.values(), ends, strict=True):
        axes.barh(place, size, 0.6, left=end - size, color=color)
    return ends[-1]


@figure(
    "four-layouts",
    caption="Llama-3-70B on 1,024 H100s, planned in four layouts that fit. Left, the peak of a rank: the layouts "
    "differ in weights and optimizer state, and all hold the loss's buffers. Right, the parts of a step's time: shards "
    "alone lose no time to communication here, tensor ranks wait for communication, and stages wait for each other.",
    description="Two panels of stacked bars for four layouts. Left, GB at the peak: 28.4, 35.1, 22.2 and 29.3, all "
    "below 80 GB. Right, shares of a step's time: for both sharded layouts three quarters is compute and a quarter "
    "recomputation; with tensor parallelism a seventh is waiting for tensor ranks; with 8 stages a further part is "
    "bubble.",
)
def four_layouts() -> Figure:
    drawing, (memory, time) = style.new_figure(3.5, columns=2, sharey=True)
    found = plans()
    for place, plan in enumerate(found.values()):
        held = plan.ledger.at(plan.ledger.peak()[0])
        end = draw_parts(
            memory, place, {kind.value: held[kind] / 1e9 for kind in MEMORY}, {k.value: c for k, c in MEMORY.items()}
        )
        memory.text(end + 0.6, place, f"{end:.1f}", va="center", fontweight="bold")
        parts = plan.estimate.parts
        shares = {name: 100 * parts[name] / plan.estimate.seconds for name in TIME}
        draw_parts(time, place, shares, TIME)
    memory.set_yticks(range(len(found)), found)
    memory.axvline(80, color=style.INK, linewidth=1.5)
    memory.text(78.5, -0.42, "GPU: 80 GB", ha="right", va="top", rotation=90)
    memory.set(xlabel="GB at the peak", xlim=(0, 84), ylim=(3.5, -0.5), title="Memory")
    time.set(xlabel="% of the step's time", xlim=(0, 100), title="Time")
    time.tick_params(axis="y", length=0)
    names = {Kind.TEMPORARY: "temporary", Kind.OPTIMIZER: "optimizer"}
    for axes, labels in (
        (memory, {names.get(kind, kind.value): color for kind, color in MEMORY.items()}),
        (time, {"tensor ranks" if name == "tensor" else name: color for name, color in TIME.items()}),
    ):
        handles = [Rectangle((0, 0), 1, 1, color=color) for color in labels.values()]
        axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3 if axes is memory else 2,
                    columnspacing=1, handlelength=1)  # fmt: skip
    return drawing


def draw_halves(axes: Axes, middle: float, rank: int) -> None:
    """Draws the products of one of two tensor ranks, around the height `middle`; empty: the other rank's halves."""
    C, T, own = 22.0, 34.0, "₀₁"[rank]  # in points
    box(axes, 36, middle - C / 2, 4 * C, C, color=style.PAPER, edge=style.MUTED)
    box(axes, 204, middle - 2 * C, C, 4 * C, color=style.PAPER, edge=style.MUTED)
    for x, y, wide, high, text, color in (
        (0, middle - T / 2, C, T, "X", style.ACTIVATIONS),
        (36 + 2 * C * rank, middle - C / 2, 2 * C, C, f"A{own}", style.WEIGHTS),
        (140, middle - T / 2, 2 * C, T, f"GeLU\n(XA{own})", style.ACTIVATIONS),
        (204, middle - 2 * C * (1 - rank), C, 2 * C, f"B{own}", style.WEIGHTS),
        (253, middle - T / 2, C, T, f"P{own}", style.TEMPORARY),
        (334, middle - T / 2, C, T, "Z", style.ACTIVATIONS),
    ):
        box(axes, x, y, wide, high, text, color=color, edge=style.MUTED, size=11)
    for x, sign in ((29, "×"), (194, "×"), (239.5, "=")):
        axes.text(x, middle, sign, ha="center", va="center", fontsize=12)
    for start, end in ((126, 138), (278, 296), (319, 332)):
        arrow(axes, (start, middle), (end, middle))


@figure(
    "columns-then-rows",
    caption="An MLP's two matrices on two tensor ranks, to scale. A is split by columns and B by rows, so the first "
    "product, GeLU and the second product need no message. The products P are partial sums; one all-reduce adds them "
    "to Z.",
    description="Two rows of boxes, one per rank. Each rank has the same X, T by C. Rank 0 multiplies it by the left "
    "half of A, whose whole is C by 4C, applies GeLU to the product, T by 2C, and multiplies it by the upper half of "
    "B, whose whole is 4C by C. Rank 1 does the same with the right half of A and the lower half of B. Both products, "
    "T by C, enter a bar across both ranks, the all-reduce, and each rank gets their sum Z, T by C.",
)
def columns_then_rows() -> Figure:
    drawing, axes = style.new_figure(3.4, width=style.NARROW)
    style.blank(axes, 360, 246)
    for rank, middle in enumerate((66, 172)):
        axes.text(0, middle - 48, f"rank {rank}", fontweight="bold", fontsize=11)
        draw_halves(axes, middle, rank)
    box(axes, 298, 22, 20, 194, color=style.COMMUNICATION, edge=style.PAPER, rounding=3)
    axes.text(308, 119, "all-reduce", rotation=90, ha="center", va="center", fontsize=11,
              color=style.text_on(style.COMMUNICATION))  # fmt: skip
    for x, shape in ((11, "T×C"), (80, "A: C×4C"), (162, "T×2C"), (215, "B: 4C×C"), (264, "T×C"), (344, "T×C")):
        axes.text(x, 236, shape, ha="center", va="center", fontsize=11, color=style.MUTED)
    return drawing


def draw_schedule(axes: Axes, orders: list[list[Action]], runs: int = 1) -> None:
    """Draws the actions of each stage on a time axis; a forward takes one unit, a backward two."""
    for stage, (begins, actions) in enumerate(zip(begin_times(orders, 1 / runs, 2 / runs), orders, strict=True)):
        axes.add_patch(Rectangle((0, stage), 33, 0.86, color=style.PANEL))
        for begin, action in zip(begins, actions, strict=True):
            color = style.BLUE if action.forward else style.ORANGE
            wide = (1 if action.forward else 2) / runs
            faded = 0.65 if action.chunk else 1.0
            axes.add_patch(Rectangle((begin, stage), wide - 0.06, 0.86, color=color, alpha=faded))
            if runs == 1:
                axes.text(begin + wide / 2, stage + 0.45, str(action.micro_batch + 1), ha="center", va="center",
                          color=style.text_on(color), fontsize=8.5)  # fmt: skip
    axes.set(xlim=(0, 33), ylim=(4, -0.1), yticks=[0.43, 1.43, 2.43, 3.43])
    axes.set_yticklabels(["stage 1", "2", "3", "4"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


@figure(
    "schedules",
    caption="Eight micro-batches on 4 stages, replayed. Blue is forward, orange backward, gray the bubble. GPipe and "
    "1F1B are idle for [27.3 %](claim:plan-bubble) of the time; 1F1B begins a backward as early as it can. Two "
    "separate runs of consecutive blocks per stage shorten the bubble to 15.8 %.",
    description="Three time charts with four rows of blocks. GPipe: eight forwards, then eight backwards, with a "
    "staircase of idle time in between. 1F1B: after a few forwards, forwards and backwards alternate, and the step "
    "ends at the same time. Interleaved: shorter blocks in two shades, and the step ends earlier.",
)
def schedules() -> Figure:
    drawing, panels = style.new_figure(4.6, rows=3, sharex=True)
    stages, micro_batches = 4, 8
    draw_schedule(panels[0], [gpipe(micro_batches)] * stages)
    draw_schedule(panels[1], [order(stage, stages, micro_batches) for stage in range(stages)])
    draw_schedule(panels[2], [order(stage, stages, micro_batches, 2) for stage in range(stages)], 2)
    for axes, title in zip(panels, ("GPipe", "1F1B", "1F1B, interleaved: two runs per stage"), strict=True):
        axes.set_title(title)
    panels[2].set_xlabel("time, in forwards of one micro-batch through one stage")
    return drawing
