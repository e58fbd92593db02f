"""Figures of the chapter on recomputation."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.ledger.segments import even, kept_over_a_step, peak_of_lengths, plain_step


@figure(
    "segments-over-a-step",
    caption="Activations over one step of a model of 32 blocks. The tensors inside a block take 16 times as much as "
    "its input. Without recomputation the tensors inside all blocks are kept. With recomputation the tensors inside "
    "one segment, a group of blocks, are in memory at a time.",
    description="Lines of kept activations over 32 blocks of forward and 32 of backward. Without recomputation the "
    "line rises to 512 block inputs and falls again. With segments of 8 blocks it stays low in forward and has four "
    "teeth of about 130 in backward. With segments of 1 block it stays below 50.",
)
def segments_over_a_step() -> Figure:
    blocks, inside = 32, 16.0
    drawing, axes = style.new_figure(3.2)
    lines = {
        "no recomputation": (plain_step(blocks, inside), style.GRAY),
        "segments of 8 blocks": (kept_over_a_step(even(blocks, 4), inside), style.ORANGE),
        "segments of 1 block": (kept_over_a_step(even(blocks, 32), inside), style.BLUE),
    }
    for name, (sizes, color) in lines.items():
        axes.fill_between(range(1, 65), sizes, step="mid", color=color, alpha=0.12, linewidth=0)
        axes.step(range(1, 65), sizes, where="mid", color=color, label=name)
    axes.text(33, 522, "no recomputation", color=style.GRAY, ha="center", va="bottom")
    axes.text(33.5, 138, "segments of 8 blocks", color=style.ORANGE, va="bottom")
    axes.text(11, 34, "segments of 1 block", color=style.BLUE, va="bottom")
    axes.axvline(32.5, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set_xticks([1, 16.5, 32.5, 48.5, 64], ["block 1", "forward", "block 32", "backward", "block 1"])
    axes.set(ylabel="activations, in inputs of a block", ylim=(0, 575), xlim=(0, 65))
    return drawing


@figure(
    "peak-by-segments",
    caption="Peak of 64 equal blocks, divided as evenly as possible, by the number of segments. Where a block keeps no "
    "more than its input (a = b), 6 to 11 segments are best; for a GPT block (a = 16 b), "
    "[40 segments](claim:recompute-segments-of-a-gpt).",
    description="Two curves of the peak over the number of segments from 1 to 64, on logarithmic axes. For a = b the "
    "lowest value is 15 inputs at 6 to 11 segments. For a = 16 b the curve falls from 1,024 at one segment through 135 "
    "at 8 to 55 at 40 segments, then rises to 79 at 64.",
)
def peak_by_segments() -> Figure:
    drawing, axes = style.new_figure(3.2)
    counts = list(range(1, 65))
    for inside, color, name in ((1, style.BLUE, "a = b"), (16, style.ORANGE, "a = 16 b: a GPT block")):
        peaks = [peak_of_lengths(even(64, count), inside) for count in counts]
        axes.plot(counts, peaks, color=color)
        lowest = [count for count in counts if peaks[count - 1] == min(peaks)]
        dot = {"marker": "o"} if len(lowest) == 1 else {}
        axes.plot(lowest, [min(peaks)] * len(lowest), color=color, linewidth=5, solid_capstyle="round", **dot)
        segments = str(lowest[0]) if len(lowest) == 1 else f"{lowest[0]} to {lowest[-1]}"
        middle = (lowest[0] * lowest[-1]) ** 0.5
        height, side = (min(peaks) / 1.2, "top") if inside == 1 else (min(peaks) * 1.6, "bottom")
        axes.text(middle, height, f"{segments} segments: {min(peaks):.0f} b", ha="center", va=side, color=color)
        axes.text(1.9, peaks[1] * 1.25, name, color=color)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
    axes.set_yticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1,000"])
    axes.minorticks_off()
    axes.set(xlabel="number of segments", ylabel="peak, in inputs of a block", ylim=(7, 1500))
    axes.grid(axis="y")
    return drawing


@figure(
    "time-against-memory",
    caption="Forward and backward of a GPT (12 layers 768 wide, 8 × 1,024 tokens, bf16) on one H200 (2026-11-26, "
    "torch 2.11). Recomputing each block lowers the peak [by more than half](claim:gpu-recompute-frontier), to a "
    "sixth, for 27 % more time. Segments of √L blocks take as long and need more memory, so no budget calls for them.",
    description="Four points of milliseconds over peak memory above the weights in MiB. No recomputation: 2,526 MiB "
    "and 14.4 ms. Attention alone: 1,946 and 15.8. Segments of root L blocks: 788 and 18.4. Each block: 432 and 18.2, "
    "which is left of and slightly below the segments. A dashed line joins no recomputation, attention alone and each "
    "block.",
)
def time_against_memory() -> Figure:
    lines = measured_chart("gpu-recompute-frontier").lines
    points = {name: line[0] for name, line in lines.items()}
    names = {
        "none": ("no recomputation", style.BLUE, {"xytext": (0, -14), "ha": "right"}),
        "selective": ("attention alone", style.BLUE, {"xytext": (6, 9), "ha": "center"}),
        "blocks": ("each block", style.BLUE, {"xytext": (0, -14), "ha": "center"}),
        "sqrt": ("segments of √L blocks", style.ORANGE, {"xytext": (10, 4), "ha": "left"}),
    }
    drawing, axes = style.new_figure(3.0)
    frontier = [points[name] for name in ("blocks", "selective", "none")]
    peaks, times, *_ = columns(frontier)
    axes.plot(peaks, times, "--", color=style.GRAY, linewidth=1.2)
    for name, (label, color, place) in names.items():
        peak, median, low, high = (float(number) for number in points[name])
        axes.vlines(peak, low, high, color=color)
        axes.plot(peak, median, "o", color=color, markersize=7)
        style.label_line(axes, peak, median, label, style.WORDS.get(color, color), **place)
    axes.set_xticks(range(0, 2501, 500), [f"{mib:,}" for mib in range(0, 2501, 500)])
    axes.set_yticks(range(0, 21, 5))
    axes.set(xlabel="peak above the weights, MiB", ylabel="forward and backward, ms", xlim=(0, 2750), ylim=(0, 21))
    axes.grid()
    return drawing
