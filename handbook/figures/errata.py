"""Figures of the errata: sayings beside their measurements, and the limits of ZeRO's savings."""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from rankzero.figures import style
from rankzero.figures.charts import measured_value
from rankzero.figures.figure import figure
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
    Saying("a 7B model on 8 GPUs: 84/8 GB", 10.5, "errata-7b-on-8-ranks", "ZeRO-1", "GB"),
    Saying("mixed precision, weights and state", 6, "errata-bytes-per-parameter", "mixed", "B per parameter"),
    Saying("gradient norms, at most", 2, "errata-gradient-norms", "1 sequence"),
    Saying("1.4 GB around a ring of 4", 1.4, "errata-ring-all-reduce", "350e6 of 4 B, 4 ranks", "GB sent"),
    Saying("the first loss is ln 96", 4.56, "errata-first-loss", unit="nats"),
    Saying("7B in fp32", 112, "errata-7b-in-fp32", "7e9 parameters", "GB"),
    Saying("backward against forward", 2, "errata-backward-twice-forward", "GPT", "times"),
    Saying("a 7B sync in fp16", 28, "errata-ring-all-reduce", "7e9 gradients of 2 B, 8 ranks", "GB sent"),
    Saying("mixed precision shrinks activations", 2, "errata-autocast-memory", "activations, times less", "times"),
    Saying("Adam's state of a 7B model", 84, "errata-7b-adam-state", "m and v", "GB"),
    Saying("ZeRO-1 saves (4 ranks)", 4, "errata-zero-at-64-ranks", "ZeRO-1, 4 ranks", "times"),
    Saying("2T: the model's FLOPs", 4, "errata-attention-doubling", "forward FLOPs of GPT-2", "times"),
    Saying("recomputation costs", 33, "errata-checkpointing-flops", "blocks, early stop", "%"),
    Saying("Adam's state in a bf16 model", 8, "errata-adam-state-dtype", "bf16 model", "B per parameter"),
    Saying("2T: attention's memory", 4, "errata-attention-doubling", "kept by the fused kernel", "times"),
    Saying("ZeRO-2 saves (4 ranks)", 8, "errata-zero-at-64-ranks", "ZeRO-2, 4 ranks", "times"),
    Saying("six shapes compile", 6, "errata-recompilations", "by default", "times"),
    Saying("undivided loss, AdamW's step (k = 8)", 8, "errata-undivided-loss", "AdamW", "times"),
)


@figure(
    "errata-said-and-measured",
    caption="Twenty sayings with a number. A bar leads from the said to the measured value. Three sayings are right; "
    "the others are off by up to 10 times, in both directions: mixed precision takes "
    "[16 bytes](claim:errata-bytes-per-parameter) per parameter instead of 6, and ZeRO-2 on 4 ranks saves "
    "[2.91 times](claim:errata-zero-at-64-ranks) instead of 8.",
    description="Twenty horizontal bars on a log axis of measured over said value, from one tenth to ten, each with "
    "both numbers. Six point to the right of 1, led by momentum with 10 times the said step. Three have no length: "
    "the first loss, 7B in fp32, and backward against forward. Eleven point to the left; the longest is AdamW's step "
    "on an undivided loss, 8 said and 1 measured.",
)
def said_and_measured() -> Figure:
    drawing, axes = style.new_figure(6.2)
    for place, saying in enumerate(SAYINGS):
        value = measured_value(saying.slug)
        measured = float(value[saying.part] if isinstance(value, Mapping) else value)
        ratio = measured / saying.said
        right = abs(ratio - 1) < 0.02
        color = style.GREEN if right else style.ORANGE if ratio > 1 else style.BLUE
        axes.plot([1, ratio], [place, place], color=color, linewidth=7, solid_capstyle="butt")
        axes.plot(ratio, place, "o", color=color, markersize=7)
        text = f"{saying.said:g} → {measured:.3g} {saying.unit}".rstrip()
        style.label_line(axes, max(ratio, 1), place, text, style.INK, xytext=(9, 0))
    axes.axvline(1, color=style.MUTED, linewidth=1)
    axes.set_xscale("log")
    axes.set(xlim=(0.08, 120), ylim=(len(SAYINGS) - 0.4, -0.6), xlabel="measured / said")
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2, 5, 10])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_tick_params(which="minor", length=0)
    axes.set_yticks(range(len(SAYINGS)), [saying.words for saying in SAYINGS])
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "errata-zero-limits",
    caption="4 and 8 times are limits. Lines are the formula, dots are counted tensors: on 4 ranks ZeRO-1 saves "
    "[2.29 times](claim:errata-zero-at-64-ranks) and ZeRO-2 [2.91 times](claim:errata-zero-at-64-ranks).",
    description="Two rising curves over the number of ranks from 1 to 1,024 on a log axis. Both start at 1. ZeRO-1 "
    "bends towards a dashed line at 4, ZeRO-2 towards one at 8. Dots at 4 and 64 ranks lie on the curves.",
)
def zero_limits() -> Figure:
    mixed, numbers = RECIPES["mixed"], len(OPTIMIZERS["adamw"].moments)
    state = mixed.master + numbers * mixed.state
    whole = mixed.weight + mixed.gradient + state
    sharded = {"ZeRO-1": state, "ZeRO-2": state + mixed.gradient}
    ranks = [2 ** (power / 8) for power in range(81)]
    counted = measured_value("errata-zero-at-64-ranks")
    drawing, axes = style.new_figure(2.9)
    for (stage, size), color in zip(sharded.items(), (style.BLUE, style.ORANGE), strict=True):
        axes.plot(ranks, [whole / (whole - size + size / n) for n in ranks], color=color)
        axes.plot([4, 64], [counted[f"{stage}, {n} ranks"] for n in (4, 64)], "o", color=color, markersize=6)
        limit = whole / (whole - size)
        axes.axhline(limit, color=color, linestyle="--", linewidth=1)
        axes.text(1.1, limit - 0.12, f"{stage}: limit {limit:g}", color=color, va="top", fontsize=9.5)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set(xlim=(1, 1024), ylim=(0, 8.6), xlabel="ranks", ylabel="times fewer bytes per rank")
    axes.grid()
    return drawing
