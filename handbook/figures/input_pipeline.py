"""Figures of the chapter on the input pipeline."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import box

LOAD, STEP = style.AMBER, style.BLUE


def loader_timeline(
    workers: int, load: float, step: float, prefetch: int, batches: int, slow: float = 1
) -> list[list[float]]:
    """Begin of loading, end of loading, and begin of the step of each batch, in the units of `load` and `step`.

    Batch i belongs to worker i mod `workers`. A worker has at most `prefetch` batches loaded or in work that the loop
    has not taken. Without workers the loop itself loads. Every eighth batch takes `slow` times as long to load.
    """
    rows = []  # type: ignore[var-annotated]
    for batch in range(batches):
        begin = 0.0
        if workers == 0:
            if batch > 0:
                begin = rows[batch - 1][2] + step
        else:
            if batch >= workers:
                begin = rows[batch - workers][1]
            if batch >= prefetch * workers:
                begin = max(begin, rows[batch - prefetch * workers][2])
        end = begin + load
        if batch % 8 == 7:
            end = begin + slow * load
        start = end
        if batch > 0:
            start = max(end, rows[batch - 1][2] + step)
        rows.append([begin, end, start])
    return rows


def waiting_share(workers: int, load: float, step: float, prefetch: int, slow: float) -> float:
    """Share of the time in which the device waits, over 240 steps after the first 160."""
    rows = loader_timeline(workers, load, step, prefetch, 401, slow)
    return 1 - 240 * step / (rows[400][2] - rows[160][2])


def draw_timeline(axes: Axes, top: float, workers: int, load: float, step: float, until: float) -> None:
    """Draws loading in each worker and the steps of the device, up to the time `until`."""
    names = [f"worker {worker}" for worker in range(workers)] or ["main process"]
    for row, name in enumerate(names):
        axes.text(-0.15, top + row + 0.45, name, ha="right", va="center")
    device = top + len(names)
    axes.text(-0.15, device + 0.45, "device", ha="right", va="center", weight="bold")
    axes.add_patch(Rectangle((0, device), until, 0.9, facecolor="none", edgecolor=style.ORANGE, hatch="////", lw=0.6))
    for batch, (begin, end, start) in enumerate(loader_timeline(workers, load, step, 2, 40)):
        row = top + (batch % workers if workers else 0)  # type: ignore[assignment]
        for x, stop, y, color in ((begin, end, row, LOAD), (start, start + step, device, STEP)):
            if x < until:
                width = min(stop, until) - x
                box(axes, x, y, width, 0.9, color=color, edge=style.PAPER)
                if width > 0.35:
                    ink = style.text_on(color)
                    axes.text(x + width / 2, y + 0.45, str(batch), ha="center", va="center", color=ink, fontsize=9)


@figure(
    "starved-and-fed",
    caption="A batch takes 3 times as long to load (amber) as the device needs for its step (blue); in the "
    "hatched time the device waits. Workers load different batches at the same time, so with three workers the device "
    "is always busy after the first batch.",
    description="Three timelines of a loader and a device, numbered by batch. Without workers, loading and steps "
    "alternate and the device waits three quarters of the time. With one worker, loading continues during the step and "
    "the device waits two thirds. With three workers, three batches load at the same time and the device runs step "
    "after step once the first batch is there.",
)
def starved_and_fed() -> Figure:
    drawing, axes = style.new_figure(3.8)
    axes.set(xlim=(-2.4, 16), ylim=(11.9, -0.9))
    axes.set_axis_off()
    top = 0.0
    for workers, text in (
        (0, "no workers: the device waits 3/4 of the time"),
        (1, "1 worker: it waits 2/3"),
        (3, "3 workers: it waits for the first batch only"),
    ):
        axes.text(0, top - 0.1, text, va="bottom", weight="bold")
        draw_timeline(axes, top, workers, 3.0, 1.0, 16.0)
        top += max(workers, 1) + 2.35
    axes.text(16, top - 0.95, "time, in steps of the device: 16 are shown", ha="right", va="top", color=style.MUTED)
    return drawing


@figure(
    "waits-by-workers",
    caption="Measured share of the time in which a loop waits, if loading takes 3 times as long as a step. The boxed "
    "condition predicts [75, 67, 33 and 0 %](claim:input-share-that-waits) (gray); workers beyond the third change "
    "nothing.",
    description="Points of the waiting time over 0, 1, 2, 4 and 8 workers, on top of gray rings for the prediction. "
    "The points fall from 75 percent without workers over 67 and 33 percent to nearly 0 with 4 and 8 workers.",
)
def waits_by_workers() -> Figure:
    drawing, axes = style.new_figure(2.5)
    workers, shares, low, high = columns(measured_chart("input-share-that-waits").lines["waits"])
    places = range(len(workers))
    predicted = [100 * (1 - 1 / (4 if count == 0 else max(3 / count, 1))) for count in workers]
    axes.plot(places, predicted, "o", color=style.GRAY, markersize=13, markerfacecolor="none", markeredgewidth=2)
    axes.vlines(places, low, high, color=style.BLUE)
    axes.plot(places, shares, "o", color=style.BLUE, markersize=6)
    axes.annotate("predicted", (0, predicted[0]), xytext=(14, 5), textcoords="offset points", color=style.MUTED)
    axes.annotate("measured", (0, shares[0]), xytext=(14, -10), textcoords="offset points", color=style.BLUE)
    axes.set_xticks(places, [f"{count:.0f}" for count in workers])
    axes.set(xlabel="workers", ylabel="% of the time", ylim=(-6, 100), xlim=(-0.4, 4.4))
    axes.grid(axis="y")
    return drawing


@figure(
    "samples-per-rank-and-worker",
    caption="Samples 0 to 11 of an iterable data set, as four real workers on two ranks yielded them. An "
    "epoch yields every sample [4, 2 and 2 times](claim:input-samples-per-rank-and-worker) if samples are not divided, "
    "divided by worker only, or by rank only. Divided by rank and worker, it yields every sample once.",
    description="Four grids of two ranks with two workers each, by twelve samples. Not divided: all cells are filled. "
    "By worker only: rank 0 and rank 1 are filled alike, each worker every other sample. By rank only: both workers of "
    "a rank are filled alike. By rank and worker: each column has exactly one filled cell.",
)
def samples_per_rank_and_worker() -> Figure:
    lines = measured_chart("input-samples-per-rank-and-worker").lines
    drawing, axes = style.new_figure(3.1)
    axes.set(xlim=(-4.6, 29.2), ylim=(10.2, -1.2))
    axes.set_axis_off()
    colors = {"not divided": style.ORANGE, "by worker only": style.ORANGE, "by rank only": style.ORANGE}
    ways = list(dict.fromkeys(name.partition(":")[0] for name in lines))
    for number, way in enumerate(ways):
        left, top = 15.5 * (number % 2), 6.0 * (number // 2)
        seen = [line for name, line in lines.items() if name.startswith(f"{way}:")]
        times = sum(map(len, seen)) // 12
        axes.text(left, top - 0.25, f"{way}: each sample {times}×", va="bottom", weight="bold")
        for row, line in enumerate(seen):
            if number % 2 == 0:
                axes.text(-0.3, top + row + 0.5, f"rank {row // 2}, worker {row % 2}", ha="right", va="center", size=9)
            read = {point[0] for point in line}
            for sample in range(12):
                color = colors.get(way, style.GREEN) if sample in read else style.PANEL
                label = str(sample) if sample in read else ""
                box(axes, left + sample, top + row, 0.94, 0.9, label, color=color, edge=style.PAPER, size=9)
    return drawing


@figure(
    "bytes-by-vocabulary",
    caption="Bytes per token of held-out text in byte-pair vocabularies of several sizes, for the text that the "
    "repository embeds and for TinyShakespeare. A [sixteenfold vocabulary](claim:input-bytes-per-token) makes the "
    "embedded text's tokens four times as long; the last doubling gains half as much as the first.",
    description="Rising lines of bytes per token over vocabularies of 256 to 4,096 tokens on a logarithmic axis. The "
    "embedded text starts at 1 byte per token, passes 2 at 512, 2.7 at 1,024, 3.4 at 2,048, and ends near 4 at 4,096. "
    "TinyShakespeare stays below it and ends at 3.4.",
)
def bytes_by_vocabulary() -> Figure:
    drawing, axes = style.new_figure(2.7)
    names = {"embedded": ("embedded text", style.BLUE), "tinyshakespeare": ("TinyShakespeare", style.ORANGE)}
    for name, line in measured_chart("input-bytes-per-token").lines.items():
        sizes, lengths, *_ = columns(line)
        title, color = names[name]
        axes.plot(sizes, lengths, "o-", color=color)
        style.label_line(axes, sizes[-1], lengths[-1], title, color)
    axes.set_xscale("log", base=2)
    axes.set_xticks([256, 512, 1024, 2048, 4096], ["256", "512", "1,024", "2,048", "4,096"])
    axes.minorticks_off()
    axes.set(xlabel="vocabulary, tokens", ylabel="bytes per token", ylim=(0, 4.4))
    axes.grid(axis="y")
    return drawing


@figure(
    "pinned-copies",
    caption="Rate of a copy from the host to one H200 (2026-11-26, torch 2.11), by the size of the copy. [256 "
    "MiB](claim:gpu-pinned-copies) from pinned memory arrive at 55 GB/s, from ordinary memory at 9.6. Copies of a few "
    "kilobytes are slow from both.",
    description="Two lines of GB per second over sizes from 4 KiB to 256 MiB, both axes logarithmic. Pinned memory "
    "rises from 0.7 to 31 at 256 KiB and 55 at 256 MiB. Ordinary memory rises from 0.4 to 17 at 64 MiB and falls to "
    "9.6 at 256 MiB.",
)
def pinned_copies() -> Figure:
    lines = measured_chart("gpu-pinned-copies").lines
    drawing, axes = style.new_figure(2.8)
    for name, label, color in (("pinned", "pinned", style.BLUE), ("pageable", "ordinary", style.ORANGE)):
        x, median, low, high = columns(lines[name])
        axes.plot(x, median, "o-", color=color)
        axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        style.label_line(axes, x[-1], median[-1], f"{label}: {median[-1]:.3g}", style.WORDS.get(color, color))
    axes.set_xscale("log", base=2)
    axes.set_xticks([2**12, 2**16, 2**20, 2**24, 2**28], ["4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB"])
    axes.set_yscale("log")
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    axes.set(xlabel="bytes copied at once", ylabel="GB/s", ylim=(0.25, 120))
    axes.grid()
    return drawing
