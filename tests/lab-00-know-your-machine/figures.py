"""Figures of the page of Lab 00."""

import math
import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_text


def log_widths(axes: Axes, widths: list[float]) -> None:
    """Makes the x axis logarithmic, with a tick for each width."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(widths, [f"{width:,.0f}" for width in widths])
    axes.minorticks_off()


@figure(
    "lab-00-small-products",
    caption="The time of square fp32 products on one thread, in multiples of a call without work (dashed). A product "
    "[16 wide](claim:lab-00-small-products) takes little longer than a call without work: its arithmetic alone, at the "
    "highest rate (dotted), would need a twentieth of the time of a call. From 16 to 32, the work grows to eight times "
    "as much, but the time does not grow. From 128 on, the arithmetic takes nearly all of the time.",
    description="Time over the width of a square product from 16 to 1,024, both logarithmic; the time of a call "
    "without work is 1. Measured points: nearly level, a little above 1, from 16 to 32; then they rise to 10,000 at "
    "1,024. A level line at 1 is the call. A slanted line, the arithmetic at the highest rate, rises from below 0.1 at "
    "16, crosses the level line near 48, and meets the points from 128 on.",
)
def small_products() -> Figure:
    chart = measured_chart("lab-00-small-products")
    drawing, axes = style.new_figure(3.6)
    widths, rates, _, _ = columns(chart.lines["measured"])
    _, shares, _, _ = columns(chart.lines["share of the call"])
    times = [100 / share for share in shares]
    work = [time * rate / 100 for time, rate in zip(times, rates, strict=True)]
    crossing = math.exp(np.interp(0.0, np.log(work), np.log(widths)))
    axes.axvspan(widths[0], crossing, color=style.ORANGE, alpha=0.12, linewidth=0)
    axes.plot(widths, [1] * len(widths), "--", color=style.ORANGE)
    axes.plot(widths, work, ":", color=style.INK)
    axes.plot(widths, times, "o-", color=style.BLUE)
    axes.text(17, 2.2, "here the call takes longer\nthan the arithmetic", color=style.WORDS[style.ORANGE], va="bottom")
    axes.text(1024, 1.3, "a call without work", color=style.WORDS[style.ORANGE], ha="right")
    axes.text(560, 4000, "measured time\nof a product", color=style.BLUE, ha="right", va="center")
    axes.text(30, 0.12, "arithmetic at the highest rate", color=style.INK, va="center")
    axes.set_yscale("log")
    axes.set_yticks([0.1, 1, 10, 100, 1000, 10_000], ["0.1", "1", "10", "100", "1,000", "10,000"])
    log_widths(axes, [16, 32, 64, 128, 256, 512, 1024])
    axes.set(xlabel="width n of a product [n, n] @ [n, n]", ylabel="time (call without work = 1)")
    axes.grid()
    return drawing


PLACES: dict[str, dict[str, Any]] = {
    "qkv": {"xytext": (-2, 14), "ha": "right"},
    "MLP up": {"xytext": (4, 14)},
    "MLP down": {"xytext": (8, -10)},
    "head": {"xytext": (-6, -9), "ha": "right"},
    "residual add": {"xytext": (20, 13), "ha": "right"},
    "32 wide": {"xytext": (8, -3)},
    "LayerNorm": {"xytext": (8, -3)},
    "AdamW": {"xytext": (7, -2)},
    "one row": {"xytext": (0, 11), "ha": "center"},
}


@figure(
    "lab-00-under-the-roof",
    caption="Operations of the labs' GPT under the roofs of one CPU thread, in percent of its peak. The flat roof is "
    "the peak, and the slanted roofs are intensity times bandwidth. Products with many rows (orange) come near the "
    "flat roof. Operations on single numbers and the product of one row (blue) are on the left, where memory is the "
    "limit. A product [32 wide](claim:lab-00-under-the-roof) (green) is below both roofs: its call takes a large part "
    "of the time.",
    description="Percent of the peak over FLOPs per byte, both logarithmic. Two slanted roofs, of memory and cache, "
    "end in one flat roof. Orange, near the flat roof: qkv, MLP up, MLP down, head, scores. Blue, far left and low: "
    "residual add, AdamW, one row, LayerNorm, GELU. Green, below both roofs at 5 FLOP/B: a product 32 wide.",
)
def under_the_roof() -> Figure:
    lines = measured_chart("lab-00-under-the-roof").lines
    drawing, axes = style.new_figure(4.0)
    for name, dash in (("memory", "-"), ("cache", "--")):
        ridge = float(lines[f"roof of {name}"][0][0])
        axes.plot([0.02, ridge, 200], [2 / ridge, 100, 100], dash, color=style.INK, linewidth=1.8)
        axes.text(0.9 * ridge, 116, f"ridge, {name}", ha="center", color=style.MUTED, fontsize=9)
        axes.plot([ridge, ridge], [0.3, 100], ":", color=style.MUTED, linewidth=1)
    for name, line in lines.items():
        if name.startswith("roof"):
            continue
        x, y = float(line[0][0]), float(line[0][1])
        color = style.GREEN if name == "32 wide" else style.ORANGE if x > 6 else style.BLUE
        axes.plot(x, y, "o", color=color, markersize=7)
        style.label_line(axes, x, y, name, color, **PLACES.get(name, {"xytext": (8, -3)}))
    lines_of_words = {
        "products with many rows": style.ORANGE,
        "bytes decide": style.BLUE,
        "the call decides": style.GREEN,
    }
    for place, (words, color) in enumerate(lines_of_words.items()):
        axes.text(9, 2.6 / 1.75**place, f"● {words}", color=style.WORDS.get(color, color))
    axes.set(xscale="log", yscale="log", xlim=(0.04, 200), ylim=(0.5, 170))
    axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    axes.set(xlabel="arithmetic intensity, FLOPs per byte", ylabel="% of the peak")
    axes.grid()
    return drawing


@figure(
    "lab-00-copies",
    caption="The bandwidth of copies of 8 KiB to 256 MiB, read and written bytes together. The smallest copies are "
    "slow because of the call. Copies that fit into a cache are [more than twice as fast](claim:lab-00-copies) as "
    "copies of 256 MiB, which memory limits.",
    description="Bandwidth over bytes from 8 KiB to 256 MiB, logarithmic: it rises to several times the memory's "
    "between 256 KiB and 8 MiB, then falls to 1.",
)
def copies() -> Figure:
    chart = measured_chart("lab-00-copies")
    drawing, axes = style.new_figure(2.6)
    sizes, rate, _, _ = columns(chart.lines["copy"])
    axes.plot(sizes, rate, "o-", color=style.BLUE)
    axes.axhline(1, color=style.INK, linewidth=1, linestyle=":")
    axes.set_xscale("log", base=2)
    ticks = {2**13: "8 KiB", 2**16: "64 KiB", 2**19: "512 KiB", 2**22: "4 MiB", 2**25: "32 MiB", 2**28: "256 MiB"}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.text(2**13, max(rate) * 0.55, "the call", color=style.MUTED)
    axes.text(2**20.5, max(rate) * 1.06, "caches", color=style.MUTED, ha="center")
    axes.text(2**26.5, 1.25, "memory", color=style.MUTED, ha="center")
    axes.set(xlabel="bytes read and written", ylabel="times the memory's", ylim=(0, max(rate) * 1.2))
    axes.grid()
    return drawing


@figure(
    "lab-00-four-ways",
    caption="The rate of an fp32 product 128 wide, computed in four ways on one thread, on a logarithmic axis. Loops "
    "in Python handle one number at a time; [NumPy](claim:lab-00-four-ways) passes all numbers to one compiled "
    "product, whose tiles stay in the cache.",
    description="Four bars, times the rate of three loops in Python: loops 1, tiles of 32 some hundreds, "
    "NumPy and torch some thousands.",
)
def four_ways() -> Figure:
    bars = measured_chart("lab-00-four-ways").lines["times as fast"]
    drawing, axes = style.new_figure(2.0)
    names, values = [str(bar[0]) for bar in bars], [float(bar[1]) for bar in bars]
    axes.hlines(range(len(names)), 0.6, values, color=style.GRID)
    axes.scatter(values, range(len(names)), color=style.BLUE, s=60, zorder=3)
    for place, value in enumerate(values):
        axes.text(value * 1.35, place, f"{value:,.0f} ×", va="center")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    axes.set(xlabel="times the rate of the loops", xlim=(0.6, 30_000))
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "lab-00-timers",
    caption="Two mistakes of timers. Left: on a device with a queue, a timer without `synchronize` measures only the "
    "time of the call, so the rate seems to rise [far above the peak](claim:lab-00-timer-without-synchronize). "
    "Right: the [first call](claim:lab-00-first-calls) of a convolution of a new shape takes several times as long as "
    "later calls. A mean that contains the first call is too long; a median after warm-up is not.",
    description="Left, rates over width on logarithmic axes: with synchronize near 100 percent of the peak, without it "
    "rising from below 100 to above 10,000 percent. Right, ten calls in a row: the first takes many times the median, "
    "the others about one time.",
)
def timers() -> Figure:
    drawing, (left, right) = style.new_figure(3.2, 1, 2)
    lines = measured_chart("lab-00-timer-without-synchronize").lines
    for name, color in (("with synchronize", style.BLUE), ("without", style.ORANGE)):
        x, y, _, _ = columns(lines[name])
        left.plot(x, y, "o-", color=color)
    x, y, _, _ = columns(lines["without"])
    left.text(x[-1], y[-1] * 1.5, "without", color=style.ORANGE, ha="right", va="bottom")
    left.text(x[-1], 12, "with synchronize", color=style.BLUE, ha="right", va="top")
    left.axhline(100, color=style.INK, linestyle=":", linewidth=1)
    left.set_yscale("log")
    left.set_ylim(1, y[-1] * 6)
    left.set_yticks([1, 100, 10_000], ["1", "100", "10,000"])
    log_widths(left, [64, 128, 256, 512])
    left.set(xlabel="width of the product", ylabel="% of the highest true rate", title="no synchronize")
    x, y, _, _ = columns(measured_chart("lab-00-first-calls").lines["call"])
    right.bar(x, y, color=[style.ORANGE, *[style.BLUE] * 9])
    right.axhline(1, color=style.INK, linestyle=":", linewidth=1)
    right.set_xticks([1, 5, 10])
    right.set(xlabel="number of the call", ylabel="times the median", title="no warm-up")
    for axes in (left, right):
        axes.grid(axis="y")
    return drawing


def recorded_shares(name: str) -> dict[str, float]:
    """Returns the share of its roof, in percent, that each operation reaches in a recording."""
    text = recorded_text("00", name).partition("operation ")[2].partition("\n\n")[0]
    rows = re.findall(r"^(\S.{13})(?: +[\d.]+){4} +(\d+)%", text, re.MULTILINE)
    return {operation.strip(): float(share) for operation, share in rows}


@figure(
    "lab-00-cold-timer",
    caption="The share of its roof that each operation reaches in the two recorded runs, timed by torch's Timer (blue) "
    "and by a single cold call (orange). If a share is above 100 %, the roof was measured too low. With the Timer this "
    "happens once, for a sum that moves its bytes faster than any copy. With a cold call it happens six times, and the "
    "roof is too low by a factor of up to 15.",
    description="For each operation two points over percent of its roof, on a logarithmic axis with a line at 100. The "
    "blue points are on the line or left of it, but for the residual add at 152 percent. Six orange points are "
    "right of the line: LayerNorm at 173 percent, scores at 213, one row at 667, residual add at 1,009, 32 wide at "
    "1,174 and AdamW at 1,492.",
)
def cold_timer() -> Figure:
    warm, cold = recorded_shares("first-run"), recorded_shares("cold-timer")
    drawing, axes = style.new_figure(3.2)
    for place, name in enumerate(warm):
        axes.plot([cold[name], warm[name]], [place, place], color=style.GRID, linewidth=2, zorder=1)
        axes.scatter([warm[name]], [place], color=style.BLUE, s=40, zorder=3)
        axes.scatter([cold[name]], [place], color=style.ORANGE, s=40, zorder=2)
    axes.axvline(100, color=style.INK, linewidth=1, linestyle=":")
    axes.set_yticks(range(len(warm)), list(warm))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    axes.set(xlabel="% of its roof", xlim=(2.5, 8000))
    axes.text(3, 1, "torch's Timer", color=style.BLUE)
    axes.text(3, 2.2, "one cold call", color=style.ORANGE)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    return drawing
