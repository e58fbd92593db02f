"""Figures of the chapter on compile and export."""

from itertools import accumulate
from statistics import median

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart, measured_value
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box

EAGER, COMPILED = style.ORANGE, style.BLUE


@figure(
    "compile-time-per-call",
    caption="CPU time of LayerNorm and GELU, written out as formulas, on one thread. Left: the first 50 calls; the "
    "first compiled call takes longer than [100 eager calls](claim:compile-pays). Right: the time of all calls so far, "
    "computed from the first call and the medians. Compiling has paid where the lines meet.",
    description="Left, milliseconds per call on a logarithmic axis: a level line of eager points, and compiled "
    "points that begin with one hundreds of times higher and stay below eager from the second call on. Right, the "
    "sum of the times on logarithmic axes: compiled begins far above eager, stays level, and meets it at a dot.",
)
def compile_time_per_call() -> Figure:
    lines = measured_chart("compile-pays").lines
    drawing, (single, total) = style.new_figure(2.9, columns=2, width_ratios=(1, 1.15))
    sums, later = {}, {}
    for name, color in (("eager", EAGER), ("compiled", COMPILED)):
        calls, times, *_ = columns(lines[name])
        single.plot(calls, times, "o", color=color, markersize=2.6)
        later[name] = median(times[1:])
        sums[name] = [seconds / 1000 for seconds in accumulate(times)]
        style.label_line(single, calls[-1], later[name], name, color)
    single.set_yscale("log")
    single.set(xlabel="call", ylabel="ms of CPU time", title="each call", xlim=(-1, 51))
    extra = sums["compiled"][0] - later["compiled"] / 1000
    even = extra / (later["eager"] - later["compiled"]) * 1000
    counts = [even * 10 ** (step / 20) for step in range(-58, 21)]
    totals = {name: [(extra if name == "compiled" else 0) + later[name] / 1000 * n for n in counts] for name in sums}
    for name, color in (("eager", EAGER), ("compiled", COMPILED)):
        total.plot(counts, totals[name], color=color)
    style.label_line(total, counts[20], totals["eager"][20], "eager", EAGER, xytext=(8, -4))
    style.label_line(total, counts[0], totals["compiled"][0], "compiled", COMPILED, xytext=(2, 9))
    total.plot([even], [even * later["eager"] / 1000], "o", color=style.INK, markersize=6)
    total.annotate(f"{even:,.0f} calls", (even, even * later["eager"] / 1000), xytext=(-8, 8), ha="right",
                   textcoords="offset points")  # fmt: skip
    total.set_xscale("log")
    total.set_yscale("log")
    total.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    total.set(xlabel="calls", ylabel="s of CPU time", title="all calls so far")
    for axes in (single, total):
        axes.grid(axis="y")
    return drawing


@figure(
    "kernels-before-and-after",
    caption="LayerNorm and GELU, written out. Eager: [17 kernels](claim:compile-kernels), and nearly every one reads a "
    "tensor of the batch's size from memory and writes one back. Compiled: one kernel reads the batch once and writes "
    "the result once.",
    description="Above, seventeen small boxes in a row over a bar labelled memory; from each an arrow goes down to the "
    "bar and one comes up. Below, one wide box over the same bar, with one arrow up and one arrow down.",
)
def kernels_before_and_after() -> Figure:
    count = int(measured_value("compile-kernels")["eager"])
    drawing, axes = style.new_figure(2.6)
    style.blank(axes, 72, 25)
    for top, kernels, color, name in ((2.5, count, EAGER, "eager"), (15.0, 1, COMPILED, "compiled")):
        width = 68 / count if kernels > 1 else 68
        label = f"{kernels} kernels" if kernels > 1 else f"{kernels} kernel"
        axes.text(2, top - 0.5, f"{name}: {label}", weight="bold", va="bottom")
        box(axes, 2, top + 6, 68, 1.9, "memory", size=9)
        for number in range(kernels):
            left = 2 + number * width
            box(axes, left + 0.3, top, width - 0.6, 2.4, "" if kernels > 1 else "fused", color=color, size=9,
                text_color=style.text_on(color))  # fmt: skip
            arrow(axes, (left + width * 0.32, top + 6), (left + width * 0.32, top + 2.5), head=6, line=0.9)
            arrow(axes, (left + width * 0.68, top + 2.5), (left + width * 0.68, top + 6), head=6, line=0.9)
    return drawing


@figure(
    "recompiles-by-length",
    caption="Compilations of a GPT that sees batches of six lengths, one after the other. By default the second length "
    "makes the dimension a symbol: [2 compilations](claim:compile-lengths) in all. With dynamic=False every length "
    "is compiled.",
    description="Three step lines over the lengths 33, 40, 48, 56, 60 and 64. With dynamic=False the line rises by one "
    "at each length, up to 6. By default it rises to 2 at the second length and stays. With dynamic=True it "
    "stays at 1.",
)
def recompiles_by_length() -> Figure:
    drawing, axes = style.new_figure(2.5)
    colors = {"dynamic=False": style.ORANGE, "by default": style.BLUE, "dynamic=True": style.GREEN}
    lines = measured_chart("compile-lengths").lines
    for way, color in colors.items():
        sizes, counts, *_ = columns(lines[way])
        places = range(len(sizes))
        axes.plot(places, counts, "o-", color=color, drawstyle="steps-post")
        style.label_line(axes, places[-1], counts[-1], way, color)
    axes.set_xticks(list(places), [f"{size:.0f}" for size in sizes])
    axes.set(xlabel="tokens per sequence, in this order", ylabel="compilations so far", ylim=(0, 6.6), xlim=(-0.2, 5.9))
    axes.grid(axis="y")
    return drawing


@figure(
    "launch-bound-step",
    caption="Training step of a GPT 128 wide on 8 × 64 tokens on one H200 (2026-11-26, torch 2.11). The step's "
    "kernels take [less than half](claim:gpu-launch-bound-step) of the eager step: replayed as a CUDA graph, without "
    "Python and launches one by one, they take a sixth.",
    description="Four horizontal bars in milliseconds: eager 5.0, compiled with default settings 4.3, compiled with "
    "reduce-overhead 2.3, the whole step as one CUDA graph 0.8.",
)
def launch_bound_step() -> Figure:
    points = {str(point[0]): point for point in measured_chart("gpu-launch-bound-step").lines["step"]}
    names = {
        "eager": "eager",
        "compile": "compiled, default",
        "reduce-overhead": "compiled, reduce-overhead",
        "CUDA graph": "the whole step as a CUDA graph",
    }
    drawing, axes = style.new_figure(2.1)
    for place, key in enumerate(names):
        middle, low, high = points[key][1:]
        axes.barh(place, middle, 0.62, color=style.BLUE)
        axes.hlines(place, low, high, color=style.INK, linewidth=1.2)
        axes.text(high + 0.08, place, f"{middle:.1f} ms", va="center", weight="bold")
    axes.set_yticks(range(len(names)), list(names.values()))
    axes.set(xlabel="ms per step", ylim=(len(names) - 0.5, -0.5), xlim=(0, 6.9))
    axes.tick_params(axis="y", length=0)
    return drawing
