"""Figures of the page of Lab 10."""

import re
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.claims.chart import Point
from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_text
from rankzero.figures.shapes import box, cells

LOAD, STEP, WAIT = style.AMBER, style.BLUE, style.ORANGE


def rungs(name: str) -> dict[str, tuple[float, float, str]]:
    """Milliseconds per step of each loader of a recorded run, how many of these train, and the share that waits."""
    row = r"^(this process loads|\+ .*?) +([\d.]+) +([\d.]+) +(\d+%)"
    rows = re.findall(row, recorded_text("10", name), re.MULTILINE)
    return {rung: (float(whole), float(training), waits) for rung, whole, training, waits in rows}


def draw_lane(axes: Axes, line: Sequence[Point], y: float, color: str, until: float) -> None:
    """Draws the spans (begin, end) of a worker or of the steps that begin before `until` milliseconds."""
    begins, ends, *_ = columns(line)
    for begin, end in zip(begins, ends, strict=True):
        if begin < until:
            width = min(end, until) - begin
            axes.add_patch(Rectangle((begin, y), width, 0.84, facecolor=color, edgecolor=style.PAPER, lw=0.5))


@figure(
    "lab-10-timeline",
    caption="One loop with three loaders, measured. Loading a batch (amber) takes longer than a training step (blue), "
    "and some reads are very slow. Where its lane is hatched, the loop waits. Top: one process loads and trains in "
    "turn. Middle: two workers load at the same time. Bottom: each worker loads up to 8 batches ahead, and these "
    "batches cover a part of the slow read.",
    description="Three timelines of the first 600 milliseconds. This process loads: loading and steps alternate, and "
    "more than half of the time is hatched. Two workers: two lanes of loading; steps follow each other, but for the "
    "beginning and a gap of three steps during a slow read. Eight batches ahead: the same with a gap half as long.",
)
def timeline() -> Figure:
    lines, until = measured_chart("lab-10-ahead").lines, 600.0
    drawing, axes = style.new_figure(3.5)
    axes.set(xlim=(-96, until), ylim=(11.2, -0.8))
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_yticks([])
    axes.set_xticks(range(0, 601, 100))
    axes.set_xlabel("ms since the loop asked for its first batch")
    top = 0.0
    titles = {
        "this process loads": "this process loads",
        "+ 2 workers": "2 workers, each 2 batches ahead",
        "+ 8 batches ahead": "2 workers, each 8 batches ahead",
    }
    for rung, title in titles.items():
        workers = sorted(name for name in lines if name.startswith(f"{rung}: worker"))
        axes.text(0, top - 0.12, title, va="bottom", weight="bold")
        for worker in workers:
            label = f"worker {worker[-1]}" if len(workers) > 1 else "loads"
            axes.text(-6, top + 0.42, label, ha="right", va="center", fontsize=9.5)
            draw_lane(axes, lines[worker], top, LOAD, until)
            top += 1
        waits = Rectangle((0, top), until, 0.84, facecolor="none", edgecolor=WAIT, hatch="/////", lw=0.6)
        axes.add_patch(waits)
        axes.text(-6, top + 0.42, "trains", ha="right", va="center", fontsize=9.5, weight="bold")
        draw_lane(axes, lines[f"{rung}: trains"], top, STEP, until)
        top += 2.2
    return drawing


@figure(
    "lab-10-first-run",
    caption="The ladder of the recorded run, on two cores. Workers move loading to the other core; decoding each "
    "picture only once removes work. A step of the last line takes less than half of the time of a step of the first.",
    description="Five horizontal bars of milliseconds per step, each split into training and waiting. "
    + " ".join(f"{name}: {whole:.0f} ms, waits {waits}." for name, (whole, _, waits) in rungs("first-run").items()),
)
def first_run() -> Figure:
    drawing, axes = style.new_figure(2.5)
    bars = rungs("first-run")
    for row, (whole, training, waits) in enumerate(bars.values()):
        axes.barh(row, training, 0.72, color=STEP)
        axes.barh(
            row, whole - training, 0.72, left=training, color="none", edgecolor=WAIT, hatch="/////", linewidth=0.8
        )
        axes.text(whole + 0.4, row, f"waits {waits}", va="center", color=WAIT)
    axes.set_yticks(range(len(bars)), list(bars))
    axes.invert_yaxis()
    axes.text(training / 2, len(bars) - 1, "trains", ha="center", va="center", color=style.PAPER)
    axes.set(xlabel="ms per step", xlim=(0, 33))
    axes.grid(axis="x")
    return drawing


@figure(
    "lab-10-tokens",
    caption="Tokens per byte of held-out text, for byte-pair vocabularies of several sizes. A vocabulary of 512 tokens "
    "halves the number of tokens, and each further doubling of the vocabulary saves less.",
    description="Two falling lines over vocabularies of 256 to 4,096 tokens on a logarithmic axis, from 1 token per "
    "byte. The embedded text falls to 0.45 at 512, 0.33 at 1,024 and 0.22 at 4,096; TinyShakespeare stays above it and "
    "ends at 0.26.",
)
def tokens() -> Figure:
    drawing, axes = style.new_figure(2.5)
    names = {"embedded": ("embedded text", style.BLUE, -9), "tinyshakespeare": ("TinyShakespeare", style.ORANGE, 9)}
    for name, line in measured_chart("lab-10-bytes-per-token").lines.items():
        sizes, shares, *_ = columns(line)
        title, color, lift = names[name]
        axes.plot(sizes, shares, "o-", color=color)
        style.label_line(axes, sizes[-1], shares[-1], title, color, xytext=(6, lift))
    axes.set_xscale("log", base=2)
    axes.set_xticks([256, 512, 1024, 2048, 4096], ["256", "512", "1,024", "2,048", "4,096"])
    axes.minorticks_off()
    axes.set(xlabel="vocabulary, tokens", ylabel="tokens per byte", ylim=(0, 1.08))
    axes.grid(axis="y")
    return drawing


@figure(
    "lab-10-packing",
    caption="Three documents of 6, 3 and 5 tokens in rows of 8. Left: with one document per row, 10 of 24 places are "
    "padding (gray). Middle: in packed rows, 2 of 16 places are padding. Right: the masks of the two packed rows. Each "
    "row of cells belongs to one token; its filled cells are the tokens to which this token attends, itself and "
    "earlier tokens of its document. A token of padding attends only to itself.",
    description="Left, three rows of eight cells, each with one colored document and gray padding. Middle, two rows: "
    "document 0 and two tokens of document 1; then one token of document 1, document 2 and two cells of padding. "
    "Right, two grids of eight by eight cells: only triangles below the diagonal are filled, one for each document; in "
    "the grid of row 1, the two tokens of padding fill one gray cell each, on the diagonal.",
)
def packing() -> Figure:
    lengths, row = (6, 3, 5), 8
    colors = {0: style.BLUE, 1: style.AMBER, 2: style.GREEN, -1: style.GRAY}  # -1: padding
    drawing, axes = style.new_figure(2.2)
    style.blank(axes, 62, 15.5)
    axes.text(0, 2.2, "one per row", weight="bold")
    for number, length in enumerate(lengths):
        cells(axes, 0, 3 + 2.2 * number, 1.9, [colors[number]] * length + [colors[-1]] * (row - length))
    axes.text(18.5, 2.2, "packed", weight="bold")
    documents = [number for number, length in enumerate(lengths) for _ in range(length)]
    documents += [-1] * (-len(documents) % row)
    for index in range(len(documents) // row):
        part = documents[index * row : (index + 1) * row]
        cells(axes, 18.5, 3 + 2.2 * index, 1.9, [colors[number] for number in part])
        left = 37 + 13 * index
        axes.text(left, 2.2, f"mask of row {index}", weight="bold")
        for query in range(row):
            for key in range(row):
                attends = key == query or (key < query and part[key] == part[query] >= 0)
                color = colors[part[query]] if attends else style.PAPER
                box(axes, left + 1.45 * key, 3 + 1.45 * query, 1.45, 1.45, color=color, edge=style.GRID, line=0.5)
    return drawing


@figure(
    "lab-10-break-it",
    caption="Training loss of the CNN per epoch. If the epoch is stored in the data set, persistent workers repeat the "
    "same shifts in every epoch. The loss then falls faster, so the curve looks better although the augmentation is "
    "lost.",
    description="Two falling lines over 16 epochs on a logarithmic axis, equal in epoch 1 at 1.8 nats. The line with "
    "the epoch in the data set falls to 0.02, the line with the epoch sent with each number to 0.09.",
)
def break_it() -> Figure:
    drawing, axes = style.new_figure(2.6)
    names = {
        "with the number": ("epoch with the number", style.BLUE),
        "in the data set": ("epoch in the data set", style.ORANGE),
    }
    for name, line in measured_chart("lab-10-epoch-forgotten").lines.items():
        epochs, losses, *_ = columns(line)
        title, color = names[name]
        axes.plot(epochs, losses, "o-", color=color)
        style.label_line(axes, epochs[-1], losses[-1], title, color)
    axes.set_yscale("log")
    axes.set_yticks([0.02, 0.1, 0.5, 2], ["0.02", "0.1", "0.5", "2"])
    axes.minorticks_off()
    axes.set(xlabel="epoch", ylabel="training loss, nats", xlim=(0.5, 16.4), xticks=[1, 4, 8, 12, 16])
    axes.grid(axis="y")
    return drawing


@figure(
    "lab-10-gpu-waits",
    caption="The same ladder on one H200 (2026-11-26, torch 2.11): share of the time in which the loop waits for its "
    "loader. A loop that loads by itself waits [more than half](claim:lab-10-gpu-ladder) of the time. Two workers "
    "remove little of this waiting, and decoding once removes most of it.",
    description="Six horizontal bars in percent of the time. This process loads: 85. Two workers: 78. Pinned memory: "
    "78. Eight batches ahead: 78. Persistent workers: 76. Decoded once: 21.",
)
def gpu_waits() -> Figure:
    points = measured_chart("lab-10-gpu-ladder").lines["waits"]
    drawing, axes = style.new_figure(2.5)
    for place, (_, share, *_) in enumerate(points):
        axes.barh(place, 100, 0.62, color=style.PANEL)
        axes.barh(place, share, 0.62, color=WAIT)
        axes.text(101.5, place, f"{share:.0f} %", va="center", weight="bold")
    axes.set_yticks(range(len(points)), [str(point[0]) for point in points])
    axes.set(xlabel="% of the time that waits", xlim=(0, 110), ylim=(len(points) - 0.5, -0.5))
    axes.tick_params(axis="y", length=0)
    return drawing
