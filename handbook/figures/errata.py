"""Figures of the errata: sayings beside their measurements, and the limits of ZeRO's savings."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from rankzero.figures import style
from rankzero.figures.charts import measured_value
from rankzero.figures.figure import figure
from rankzero.ledger.predict import states_per_rank
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES


class Saying(NamedTuple):
    """A quantified saying: its words, the number that it says, the claim and the part of it that measures, a unit."""

    words: str
    said: float
    slug: str
    part: str = ""
    unit: str = ""


SAYINGS = (
    Saying("momentum 0.9: step, constant gradient", 1, "momentum-multiplies-the-rate", "200th step", "times rate · g"),
    Saying("ReLU keeps a mask of bools", 1, "errata-kept-by-relu-and-batchnorm", "ReLU", "B per element"),
    Saying("mixed precision, weights and state", 6, "errata-bytes-per-parameter", "mixed", "B per parameter"),
    Saying("gradient norms, at most", 2, "errata-gradient-norms", "1 sequence"),
    Saying("1.4 GB around four A100s", 3.5, "errata-exchange-time", "1.4 GB, four A100s", "ms"),
    Saying("smoothing 0.1: target of the right class", 0.9, "errata-smoothed-targets", "right class"),
    Saying("the first loss is ln 96", math.log(96), "lab-02-first-loss", "first loss", "nats"),
    Saying("7B in fp32", 112, "errata-7b-in-fp32", "7e9 parameters", "GB"),
    Saying("backward against forward", 2, "errata-backward-twice-forward", "GPT", "times"),
    Saying("mixed precision shrinks activations", 2, "errata-autocast-memory", "activations, times less", "times"),
    Saying("Adam's state of a 7B model", 84, "errata-7b-adam-state", "m and v", "GB"),
    Saying("ZeRO-1 saves (4 ranks)", 4, "errata-zero-at-64-ranks", "ZeRO-1, 4 ranks", "times"),
    Saying("7B gradients in fp16", 28, "errata-ring-all-reduce", "payload, 7e9 gradients of 2 B", "GB"),
    Saying("recomputation costs", 33, "errata-checkpointing-flops", "blocks, early stop", "%"),
    Saying("Adam's state in a bf16 model", 8, "errata-adam-state-dtype", "bf16 model", "B per parameter"),
    Saying("twice the tokens: attention's memory", 4, "errata-attention-doubling", "kept by the fused kernel", "times"),
    Saying("ZeRO-2 saves (4 ranks)", 8, "errata-zero-at-64-ranks", "ZeRO-2, 4 ranks", "times"),
    Saying("six shapes compile", 6, "errata-recompilations", "by default", "times"),
    Saying("undivided loss, AdamW's step (k = 8)", 8, "errata-undivided-loss", "AdamW", "times"),
)


def measured_number(saying: Saying) -> float:
    """Returns the claim's measured number, in the unit of the saying."""
    value = measured_value(saying.slug)
    return float(value[saying.part] if isinstance(value, Mapping) else value)


def ratio_of(saying: Saying) -> float:
    """Returns the measured over the said number."""
    return measured_number(saying) / saying.said


@figure(
    "errata-said-and-measured",
    caption="Nineteen sayings with a number. A bar leads from the said value to the measured or computed value of the "
    "same quantity. Three sayings are right; the others are off by up to 10 times, in both directions: mixed precision "
    "takes [16 bytes](claim:errata-bytes-per-parameter) per parameter instead of 6, and ZeRO-2 on 4 ranks saves "
    "[2.91 times](claim:errata-zero-at-64-ranks) instead of 8.",
    description="Nineteen horizontal bars on a log axis of measured over said value, from one tenth to ten, each with "
    "both numbers, sorted by their ratio. Six point to the right of 1, led by momentum with 10 times the said step. "
    "Three have no length: 7B in fp32, backward against forward, and the first loss. Ten point to the left; the "
    "longest is AdamW's step on an undivided loss, 8 said and 1 measured.",
)
def said_and_measured() -> Figure:
    drawing, axes = style.new_figure(6.2)
    bars = sorted(SAYINGS, key=ratio_of, reverse=True)
    for place, saying in enumerate(bars):
        measured, ratio = measured_number(saying), ratio_of(saying)
        right = abs(ratio - 1) < 0.02
        color = style.GREEN if right else style.ORANGE if ratio > 1 else style.BLUE
        axes.plot([1, ratio], [place, place], color=color, linewidth=7, solid_capstyle="butt")
        axes.plot(ratio, place, "o", color=color, markersize=7)
        text = f"{saying.said:.3g} → {measured:.3g} {saying.unit}".rstrip()
        style.label_line(axes, max(ratio, 1), place, text, style.INK, xytext=(9, 0))
    axes.axvline(1, color=style.MUTED, linewidth=1)
    axes.set_xscale("log")
    axes.set(xlim=(0.08, 120), ylim=(len(SAYINGS) - 0.4, -0.6), xlabel="measured / said")
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2, 5, 10])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_tick_params(which="minor", length=0)
    axes.set_yticks(range(len(SAYINGS)), [saying.words for saying in bars])
    axes.tick_params(axis="y", length=0)
    return drawing


def bytes_of_a_rank(stage: int, ranks: int) -> float:
    """Returns the bytes of weights, gradients and optimizer state per parameter that a rank holds."""
    return states_per_rank(1, RECIPES["mixed"], OPTIMIZERS["adamw"], zero=stage, ranks=ranks)


@figure(
    "errata-zero-limits",
    caption="Bytes per rank without ZeRO, divided by bytes per rank with ZeRO. The savings of 4 and 8 times need many "
    "ranks: on 4 ranks ZeRO-1 saves [2.29 times](claim:errata-zero-at-64-ranks) and ZeRO-2 "
    "[2.91 times](claim:errata-zero-at-64-ranks). The lines are the formula above. The dots were counted from the "
    "tensors of Lab 02's model.",
    description="Two rising curves over the number of ranks from 1 to 1,024 on a log axis. Both start at 1. ZeRO-1 "
    "bends towards a dashed line at 4, ZeRO-2 towards one at 8. Dots at 4 and 64 ranks lie on the curves.",
)
def zero_limits() -> Figure:
    ranks = sorted({round(2 ** (power / 8)) for power in range(81)})
    whole = bytes_of_a_rank(stage=0, ranks=1)
    counted = measured_value("errata-zero-at-64-ranks")
    drawing, axes = style.new_figure(2.9)
    for stage, limit, color in ((1, 4, style.BLUE), (2, 8, style.ORANGE)):
        axes.plot(ranks, [whole / bytes_of_a_rank(stage, n) for n in ranks], color=color)
        axes.plot([4, 64], [counted[f"ZeRO-{stage}, {n} ranks"] for n in (4, 64)], "o", color=color, markersize=6)
        axes.axhline(limit, color=color, linestyle="--", linewidth=1)
        axes.text(1.1, limit - 0.12, f"ZeRO-{stage}: limit {limit}", color=color, va="top", fontsize=9.5)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set(xlim=(1, 1024), ylim=(0, 8.6), xlabel="ranks", ylabel="times fewer bytes per rank")
    axes.grid()
    return drawing
