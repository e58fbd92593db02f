"""Figures of the page of Lab 11."""

import re
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_text
from rankzero.figures.shapes import arrow, box

EAGER, COMPILED = style.ORANGE, style.BLUE
LENGTHS = (10, 12, 13, 15, 18, 34, 36, 39, 41, 88, 92, 96)  # of the drawing of buckets


@figure(
    "lab-11-one-call",
    caption="One call of a compiled function. If all guards of a compiled version hold, its kernels run. If there is "
    "no such version, the call compiles a new one, which stays for later calls.",
    description="A row of boxes: a call leads to guards hold?, from there by yes to run the kernels. By no an arrow "
    "leads down to Dynamo captures a graph, then AOTAutograd derives backward, then Inductor generates code, and "
    "back up to run the kernels.",
)
def one_call() -> Figure:
    drawing, axes = style.new_figure(2.3)
    style.blank(axes, 72, 23)
    box(axes, 1, 3, 13, 5, "a call", rounding=1)
    box(axes, 25, 3, 18, 5, "guards hold?", color=style.AMBER, text_color=style.text_on(style.AMBER), rounding=1)
    box(axes, 55, 3, 16, 5, "run the kernels", color=COMPILED, text_color=style.text_on(COMPILED), rounding=1)
    arrow(axes, (14, 5.5), (25, 5.5))
    arrow(axes, (43, 5.5), (55, 5.5), text="yes")
    for left, text in ((25, "Dynamo:\na graph"), (41.5, "AOTAutograd:\nbackward"), (58, "Inductor:\ncode")):
        box(axes, left, 15.5, 13, 6, text, size=9, rounding=1)
    arrow(axes, (31.5, 8), (31.5, 15.5))
    axes.text(30.6, 11.8, "no: compile, and keep the result", ha="right", va="center", fontsize=9.5)
    arrow(axes, (38, 18.5), (41.5, 18.5))
    arrow(axes, (54.5, 18.5), (58, 18.5))
    arrow(axes, (64.5, 15.5), (64.5, 8))
    return drawing


@figure(
    "lab-11-first-run",
    caption="Time of all steps so far, computed from the medians and the compiling time that the recorded run prints. "
    "On this CPU a step of the small GPT becomes 1.3 times as fast, and compiling pays after 7,000 steps.",
    description="Two lines on logarithmic axes. Eager rises from milliseconds. Compiled begins at the time of "
    "compiling, stays level, and meets eager far to the right, at a dot.",
)
def first_run() -> Figure:
    text = recorded_text("11", "first-run")
    medians = re.search(r"median step +eager ([\d.]+) ms, compiled ([\d.]+) ms", text)
    extra = re.search(r"compiling +([\d.]+) s", text)
    assert medians is not None
    assert extra is not None
    eager, compiled = (float(number) / 1000 for number in medians.groups())
    drawing, axes = style.new_figure(2.6)
    pays = re.search(r"pays after ([\d,]+) steps", text)
    even = float(pays[1].replace(",", "")) if pays else 1e5
    steps = [10 ** (step / 10) for step in range(round(10 * max(5, len(f"{even:.0f}"))) + 1)]
    lines = {
        "eager": (EAGER, [eager * n for n in steps]),
        "compiled": (COMPILED, [float(extra[1]) + compiled * n for n in steps]),
    }
    for name, (color, seconds) in lines.items():
        axes.plot(steps, seconds, color=color)
        place, shift = (10, (8, -6)) if name == "eager" else (0, (4, 9))
        style.label_line(axes, steps[place], seconds[place], name, color, xytext=shift)
    if compiled < eager:
        axes.plot([even], [even * eager], "o", color=style.INK, markersize=6)
        axes.annotate(f"compiling has paid: {even:,.0f} steps", (even, even * eager), xytext=(-8, 8), ha="right",
                      textcoords="offset points")  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
    axes.set(xlabel="steps", ylabel="s")
    axes.grid()
    return drawing


def padding_of(buckets: tuple[int, ...]) -> int:
    """Tokens of padding for the drawing's lengths in these buckets."""
    return sum(min(size for size in buckets if size >= length) - length for length in LENGTHS)


def draw_buckets(axes: Axes, buckets: tuple[int, ...], title: str) -> None:
    """Draws each sequence as a bar, and the padding up to its bucket."""
    for place, length in enumerate(LENGTHS):
        bucket = min(size for size in buckets if size >= length)
        axes.bar(place, length, 0.8, color=COMPILED)
        axes.bar(
            place, bucket - length, 0.8, bottom=length, color="none", edgecolor=EAGER, hatch="/////", linewidth=0.8
        )
    axes.set(title=f"{title}: {padding_of(buckets)}", xticks=[], xlabel="12 sequences", yticks=list(buckets))
    axes.grid(axis="y")


@figure(
    "lab-11-buckets",
    caption="Twelve sequences, sorted by length, in three buckets; padding is hatched. Left: buckets of 32, 64 and 96 "
    "tokens. Right: the three sizes with the least padding, each of which is the length of a sequence.",
    description="Two bar charts of the same twelve lengths between 10 and 96. Left, buckets of 32, 64 and 96: much "
    "hatching above the bars. Right, buckets of 18, 41 and 96: little hatching.",
)
def buckets() -> Figure:
    drawing, (left, right) = style.new_figure(2.6, columns=2, sharey=False)
    longest = max(LENGTHS)
    best = min(((*rest, longest) for rest in combinations(sorted(set(LENGTHS)), 2)), key=padding_of)
    draw_buckets(left, (longest // 3, 2 * longest // 3, longest), "equal widths, tokens of padding")
    draw_buckets(right, best, "best, tokens of padding")
    left.set_ylabel("tokens")
    return drawing


@figure(
    "lab-11-break-it",
    caption="CPU time of each step of a tiny GPT with `--dynamic auto`, on a logarithmic axis. With a counter in the "
    "compiled module, the [first 8 steps](claim:lab-11-counter) compile, and all later steps run eagerly. Without the "
    "counter, only the first two steps compile; with `--dynamic yes`, the starter's default, only the first step does.",
    description="Two series of points over 16 steps. With the counter, the first eight points are high, and later "
    "points low. Without it, the first two points are high and all others low.",
)
def break_it() -> Figure:
    drawing, axes = style.new_figure(2.6)
    colors = {"with the counter": (EAGER, (0, 14)), "without": (COMPILED, (0, -14))}
    for name, line in measured_chart("lab-11-counter").lines.items():
        steps, times, *_ = columns(line)
        color, shift = colors[name]
        axes.plot(steps, times, "o-", color=color, linewidth=1)
        style.label_line(axes, steps[-1], times[-1], name, color, xytext=shift, ha="right")
    axes.set_yscale("log")
    axes.set_ylim(bottom=1)  # room for a label below the lines
    axes.set(xlabel="step", ylabel="ms of CPU time", xticks=[1, 2, 4, 8, 12, 16], xlim=(0.5, 16.8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.grid(axis="y")
    return drawing
