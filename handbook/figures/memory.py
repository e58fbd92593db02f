"""Figures of the chapter on memory."""

import functools
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.ledger.ledger import PHASES, Kind, Ledger
from rankzero.ledger.measure import measure
from rankzero.ledger.models import PRESETS
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

COLORS = {
    Kind.WEIGHTS: style.WEIGHTS,
    Kind.OPTIMIZER: style.OPTIMIZER,
    Kind.GRADIENTS: style.GRADIENTS,
    Kind.ACTIVATIONS: style.ACTIVATIONS,
    Kind.TEMPORARY: style.TEMPORARY,
}
NAMES = {Kind.TEMPORARY: "temporary buffers"}


@functools.cache
def gpt2_step(recipe: str = "fp32", checkpointing: str = "none") -> Ledger:
    """A step of GPT-2 (124M) with AdamW on 8 sequences of 1,024 tokens, on tensors without storage."""
    how: dict[str, Any] = {"batch_size": 8, "seq_len": 1024, "device": "fake", "checkpointing": checkpointing}
    return measure(PRESETS["gpt2"], RECIPES[recipe], OPTIMIZERS["adamw"], **how)


def stacked(axes: Axes, bars: list[dict[Kind, float]], width: float = 0.62) -> None:
    """Draws one stacked bar per entry of `bars`, and the sum above it."""
    for place, sizes in enumerate(bars):
        tops = list(accumulate(sizes.get(kind, 0) for kind in COLORS))
        for kind, top in zip(COLORS, tops, strict=True):
            axes.bar(place, sizes.get(kind, 0), width, bottom=top - sizes.get(kind, 0), color=COLORS[kind])
        axes.text(place, tops[-1] + 0.12, f"{tops[-1]:.2f} GB", ha="center", va="bottom", fontweight="bold")


@figure(
    "memory-over-a-step",
    caption="One training step of GPT-2 (124M) in fp32 with AdamW on 8 sequences of 1,024 tokens. The weights take "
    "[0.50 GB](claim:gpt2-peak); the step peaks at [11.32 GB](claim:gpt2-peak), as backward begins.",
    description="Four stacked bars, one per moment of a training step. When forward ends, weights, optimizer state and "
    "activations take 8.03 GB, most of it activations. When backward begins, temporary buffers of the loss raise the "
    "sum to 11.32 GB. When backward ends, 1.99 GB are left: weights, optimizer state and gradients. In the update, "
    "temporary buffers raise that a little.",
)
def memory_over_a_step() -> Figure:
    ledger = gpt2_step()
    drawing, axes = style.new_figure(3.3)
    stacked(axes, [{kind: ledger.at(phase)[kind] / 1e9 for kind in COLORS} for phase in PHASES])
    axes.set_xticks(range(4), PHASES)
    axes.set(ylabel="GB", ylim=(0, 12.6), xlim=(-0.5, 3.5))
    begin = {kind: ledger.at(PHASES[1])[kind] / 1e9 for kind in COLORS}
    for kind, top in zip(COLORS, accumulate(begin.values()), strict=True):
        if kind in (Kind.ACTIVATIONS, Kind.TEMPORARY):
            axes.text(1.36, top - begin[kind] / 2, NAMES.get(kind, kind.value), color=COLORS[kind], va="center")
    for kind, height in ((Kind.GRADIENTS, 4.6), (Kind.OPTIMIZER, 3.9), (Kind.WEIGHTS, 3.2)):
        axes.text(2.5, height, kind.value, color=COLORS[kind], va="center", ha="center")
    return drawing


@figure(
    "bytes-per-parameter",
    caption="Bytes per parameter with AdamW, by recipe. fp32 and mixed precision take the same "
    "[16 bytes](claim:bytes-per-parameter): mixed precision moves bytes from weights and gradients to master weights.",
    description="Six horizontal stacked bars. All bf16: weights 2, gradients 2, averages 4, in all 8 bytes per "
    "parameter. bf16 with gradients summed in fp32: 12. fp32: 4, 4 and 8, in all 16. Mixed: weights 2, gradients 2, "
    "averages 8, master weights 4, in all 16. Mixed with fp32 gradients: 18. Mixed with both gradients: 20.",
)
def bytes_per_parameter() -> Figure:
    recipes = {
        "bf16": "all bf16",
        "bf16-fp32-accum": "bf16, fp32 gradient sum",
        "fp32": "fp32",
        "mixed": "mixed: bf16, fp32 masters",
        "mixed-fp32-grad": "mixed, fp32 gradients only",
        "mixed-fp32-accum": "mixed, fp32 gradient sum",
    }
    drawing, axes = style.new_figure(2.9)
    for place, name in enumerate(recipes):
        recipe = RECIPES[name]
        parts = {
            "weights": (recipe.weight, style.WEIGHTS),
            "gradients": (recipe.gradient + recipe.accumulator, style.GRADIENTS),
            "averages m, v": (2 * recipe.state, style.OPTIMIZER),
            "masters": (recipe.master, style.SKY),
        }
        left = 0
        for part, (size, color) in parts.items():
            if size:
                axes.barh(place, size, 0.66, left=left, color=color)
                axes.text(
                    left + size / 2,
                    place,
                    str(size),
                    ha="center",
                    va="center",
                    color=style.text_on(color),
                    weight="bold",
                )
                if name == "mixed-fp32-accum":
                    axes.text(left + size / 2, place + 0.42, part, ha="center", va="top", color=color)
                left += size
        axes.text(left + 0.2, place, f"{left} B", va="center", fontweight="bold")
    axes.set_yticks(range(len(recipes)), recipes.values())
    axes.set(ylim=(len(recipes) - 0.15, -0.55), xlim=(0, 21.5), xlabel="bytes per parameter", xticks=range(0, 21, 4))
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "smaller-steps",
    caption="The fullest moment of the same step of GPT-2. Recomputing every block leaves "
    "[6.79 GB](claim:checkpointing-gpt2), most of it for the loss. Autocast makes the blocks' activations smaller, so "
    "it saves nothing more once they are recomputed, and it adds bf16 copies of the weights.",
    description="Four stacked bars: fp32 11.32 GB; autocast to bf16 9.44 GB, with smaller activations; fp32 with every "
    "block recomputed 6.79 GB, where activations have shrunk to 2.00 GB and the loss's temporary buffers are half of "
    "the sum; autocast and recomputation together 7.02 GB.",
)
def smaller_steps() -> Figure:
    ways = {
        "fp32": gpt2_step(),
        "autocast to bf16": gpt2_step("amp"),
        "fp32, every block\nrecomputed": gpt2_step(checkpointing="block"),
        "autocast and\nrecomputed": gpt2_step("amp", "block"),
    }
    drawing, axes = style.new_figure(3.5)
    stacked(axes, [{kind: step.at(step.peak()[0])[kind] / 1e9 for kind in COLORS} for step in ways.values()])
    axes.set_xticks(range(len(ways)), ways)
    axes.set(ylabel="GB", ylim=(0, 12.6), xlim=(-0.5, 3.5))
    kinds = [kind for kind in COLORS if kind != Kind.GRADIENTS]  # none at the fullest moment
    handles = [Rectangle((0, 0), 1, 1, color=COLORS[kind]) for kind in kinds]
    axes.legend(handles[::-1], [NAMES.get(kind, kind.value) for kind in kinds][::-1], bbox_to_anchor=(1, 1.06), loc=1)
    return drawing


@figure(
    "allocator-gaps",
    caption="Fragmentation. [60 MiB](claim:cuda-fragments) are free, and a tensor of 20 MiB fits in no gap: the "
    "allocator requests a further segment from the device.",
    description="Four segments of 20 MiB, each with a live tensor of 5 MiB beside a gap of 15 MiB. Below them a tensor "
    "of 20 MiB, wider than each gap, and a fifth segment that is reserved for it.",
)
def allocator_gaps() -> Figure:
    drawing, axes = style.new_figure(1.9)
    style.blank(axes, 104, 26)
    axes.set_aspect("auto")
    for index in range(4):
        left = 26 * index
        axes.add_patch(Rectangle((left, 4), 20, 7, facecolor=style.PANEL, edgecolor=style.MUTED, linewidth=0.9))
        axes.add_patch(Rectangle((left, 4), 5, 7, facecolor=style.ACTIVATIONS))
        axes.text(left + 12.5, 7.5, "15 MiB free", ha="center", va="center")
        axes.text(left, 2.8, f"segment {index + 1}", va="bottom", color=style.MUTED, fontsize=9)
    axes.text(2.5, 12, "in use", ha="center", va="top", color=style.ACTIVATIONS, fontsize=9)
    axes.add_patch(Rectangle((0, 17), 20, 7, facecolor=style.AMBER))
    axes.text(10, 20.5, "new tensor, 20 MiB", ha="center", va="center", fontsize=9.5, color=style.text_on(style.AMBER))
    axes.annotate("", (51, 20.5), (21, 20.5), arrowprops={"arrowstyle": "-|>", "color": style.MUTED, "lw": 1.4})
    axes.add_patch(Rectangle((52, 17), 20, 7, facecolor="none", edgecolor=style.ORANGE, linewidth=1.4, linestyle="--"))
    axes.text(74, 20.5, "segment 5: 20 MiB more\nfrom the device", va="center", color=style.ORANGE)
    return drawing


@figure(
    "reserved-over-steps",
    caption="A GPT 512 wide on one H200 (2026-11-26, torch 2.11), read after forward, backward and update of three "
    "steps. Allocated memory rises and falls in each step. Reserved memory [never "
    "falls](claim:gpu-reserved-over-steps): it grows until the second step, the first that has optimizer state in "
    "memory while activations are made.",
    description="Two lines over three steps in MiB. Allocated starts at 123, is 715 after the first forward, 181 "
    "after backward, 295 after the update, and then alternates between 829 after forward and 295. Reserved rises in "
    "steps from 130 to 832, 914 and 1,042, and stays at 1,042 from the second step on.",
)
def reserved_over_steps() -> Figure:
    lines = measured_chart("gpu-reserved-over-steps").lines
    x, allocated, *_ = columns(lines["allocated"])
    _, reserved, *_ = columns(lines["reserved"])
    drawing, axes = style.new_figure(3.0)
    axes.plot(x, reserved, "o-", color=style.ORANGE)
    axes.plot(x, allocated, "o-", color=style.BLUE)
    axes.text(3.04, reserved[-1], f"reserved\n{reserved[-1]:,.0f} MiB", color=style.WORDS[style.ORANGE], va="center")
    axes.text(3.04, allocated[-1], f"allocated\n{allocated[-1]:,.0f} MiB", color=style.BLUE, va="center")
    axes.annotate("unused, but not free\nfor other processes", (2.5, 0), (1.83, 740), va="center", ha="center",
                  color=style.MUTED, annotation_clip=False)  # fmt: skip
    for place, name in ((1, "forward"), (2, "backward"), (3, "update")):
        axes.annotate(name, (x[place], allocated[place]), xytext=(6, -9 if place > 1 else 0), va="center",
                      textcoords="offset points", color=style.BLUE, fontsize=9)  # fmt: skip
    axes.set_xticks(range(4), ["before", "after step 1", "after step 2", "after step 3"])
    axes.set_yticks(range(0, 1001, 250), [f"{mib:,}" for mib in range(0, 1001, 250)])
    axes.set(ylabel="MiB", ylim=(0, 1180), xlim=(-0.1, 3.45))
    axes.grid(axis="y")
    return drawing


@figure(
    "ledger-against-allocator",
    caption="Peak in forward and backward of ten small training steps on one H200 (2026-11-26, torch 2.11). The "
    "ledger's prediction is [within 10 %](claim:gpu-ledger-against-allocator) of the allocator's peak. The numbers "
    "are the difference in MiB: it does not grow with the step, so it matters most where the step is smallest.",
    description="Ten pairs of horizontal bars, predicted and measured, in MiB. The bars of each pair are nearly equal, "
    "from 226 and 248 for one sequence to 1,611 and 1,613 for 32 sequences. The difference is 0 to 6 MiB for eight "
    "configurations, 22 for one sequence, and minus 8 under autocast, where the prediction is above the measurement.",
)
def ledger_against_allocator() -> Figure:
    lines = measured_chart("gpu-ledger-against-allocator").lines
    sizes = {"fp32, AdamW, B 1": "fp32, AdamW, 1 sequence", "fp32, AdamW, B 32": "fp32, AdamW, 32 sequences"}
    names = [sizes.get(str(point[0]), str(point[0])) for point in lines["rounding"]]
    predicted = [point[1] for point in lines["predicted, forward and backward"]]
    measured = [point[1] for point in lines["allocator, forward and backward"]]
    drawing, axes = style.new_figure(4.4)
    for place, (ledger, allocator) in enumerate(zip(predicted, measured, strict=True)):
        axes.barh(place - 0.2, ledger, 0.36, color=style.BLUE)
        axes.barh(place + 0.2, allocator, 0.36, color=style.ORANGE)
        difference = f"{allocator - ledger:+.1f}".replace("-", "−").replace("−0.0", "0.0")
        axes.text(max(ledger, allocator) + 15, place, difference, va="center")
    widest = max(range(len(names)), key=lambda place: predicted[place])
    for shift, text, color in ((-0.2, "predicted by the ledger", style.BLUE), (0.2, "allocator", style.ORANGE)):
        ink = style.text_on(color)
        axes.text(predicted[widest] - 15, widest + shift, text, ha="right", va="center", color=ink, fontsize=9)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="peak, MiB", ylim=(len(names) - 0.5, -0.6), xlim=(0, 1780))
    axes.set_xticks(range(0, 1501, 500), [f"{mib:,}" for mib in range(0, 1501, 500)])
    axes.tick_params(axis="y", length=0)
    return drawing
