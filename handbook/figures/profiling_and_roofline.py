"""Figures of the chapter on profiling and the roofline."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart, measured_value
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow

PHASES = {
    "data": style.AMBER,
    "forward": style.BLUE,
    "backward": style.PURPLE,
    "optimizer": style.GREEN,
    "idle": style.GRAY,
}


@figure(
    "four-profiles",
    caption="One training step of Lab 02's model, divided into phases by processor time. Scripts A, B and C compute "
    "the same losses more slowly. The part that has grown says [where to look](claim:lab-06-patients-by-phase): "
    "between the phases, in the two passes, or at the data. Idle is time outside all phases.",
    description="Four horizontal bars, each divided into data, forward, backward, optimizer and idle, in units of the "
    "healthy step. The healthy step is mostly backward, then forward. The steps of scripts A and B are about one and "
    "a half times as long: a third of A's step is idle, and in B forward and backward have grown. The step of script C "
    "is more than twice as long, and half of it is data.",
)
def four_profiles() -> Figure:
    chart = measured_chart("lab-06-patients-by-phase")
    runs = [str(point[0]) for point in chart.lines["data"]]
    drawing, axes = style.new_figure(2.7)
    for place in range(len(runs)):
        total, left = sum(line[place][1] for line in chart.lines.values()), 0.0
        for phase, color in PHASES.items():
            width = chart.lines[phase][place][1]
            axes.barh(place, width, 0.62, left=left, color=color)
            if width > 0.3:
                text = f"{phase}\n{width / total:.2f}"
                axes.text(
                    left + width / 2, place, text, ha="center", va="center", color=style.text_on(color), fontsize=9
                )
            left += width
        axes.text(total, place, f"  {total:.1f}", va="center", weight="bold")
    axes.set_yticks(range(len(runs)), [run if run.startswith("script") else f"{run} step" for run in runs])
    axes.set(xlabel="time of one step, in healthy steps", ylim=(len(runs) - 0.5, -0.75))
    axes.text(1, -0.36, "optimizer", ha="right", va="bottom", color=style.GREEN)
    axes.margins(x=0.06)
    axes.tick_params(axis="y", length=0)
    return drawing


def draw_lane(axes: Axes, row: float, name: str, ranges: list[tuple[float, float, str, str]]) -> None:
    """Draws one row of a timeline: ranges of start, end, text and color."""
    axes.text(-1, row + 0.5, name, ha="right", va="center")
    for start, end, text, color in ranges:
        idle = {"hatch": "////", "edgecolor": style.ORANGE, "linewidth": 0.8} if text == "idle" else {}
        look: dict[str, Any] = {"facecolor": color} | idle
        axes.add_patch(Rectangle((start, row), end - start, 1, **look))
        if text and text != "idle":
            axes.text((start + end) / 2, row + 0.5, text, ha="center", va="center", color=style.PAPER, fontsize=9)


@figure(
    "a-read-in-the-step",
    caption="Host and GPU over one step, drawn for a host that queues work in half of the time that the GPU needs. A "
    "read of the loss between forward and backward ends the host's lead: the GPU is idle until backward is queued.",
    description="Two timelines of host and GPU. In the upper one the host queues forward and backward and then waits; "
    "the GPU runs forward and backward without a gap. In the lower one the host queues forward, waits in item() until "
    "the GPU has finished forward, then queues backward; the GPU has a gap between the passes and ends later.",
)
def a_read_in_the_step() -> Figure:
    drawing, axes = style.new_figure(2.7)
    style.blank(axes, 50, 6.4)
    axes.set(xlim=(-7, 51), aspect="auto")
    wait, queue, forward, backward = style.GRAY, style.GREEN, style.BLUE, style.PURPLE
    axes.text(0, -0.1, "no read: one wait at the end", va="bottom", weight="bold")
    draw_lane(axes, 0.1, "host", [(0, 8, "queue fwd", queue), (8, 17, "queue bwd", queue), (17, 46, "wait", wait)])
    draw_lane(axes, 1.2, "GPU", [(2, 20, "forward", forward), (20, 46, "backward", backward)])
    axes.text(0, 3.5, "loss.item() between forward and backward", va="bottom", weight="bold")
    reading = [(0, 8, "queue fwd", queue), (8, 20, "item() waits", style.ORANGE), (20, 29, "queue bwd", queue)]
    draw_lane(axes, 3.7, "host", [*reading, (29, 48, "wait", wait)])
    gap = (20, 22, "idle", "none")
    draw_lane(axes, 4.8, "GPU", [(2, 20, "forward", forward), gap, (22, 48, "backward", backward)])
    axes.text(21, 5.95, "idle", ha="center", va="top", color=style.ORANGE)
    arrow(axes, (40, 6.2), (48, 6.2))
    axes.text(39.5, 6.2, "time", ha="right", va="center", color=style.MUTED)
    return drawing


@figure(
    "backward-to-forward",
    caption="Time of backward over time of forward in warm steps of Lab 02's GPT, on one thread of a CPU. The ratio of "
    "FLOPs is 2 for every batch; the ratio of times [is lower](claim:backward-to-forward-by-tokens) for small batches, "
    "whose products are too small to take most of the time.",
    description="A line of the ratio over the tokens in the batch, from 1 to 256, with its spread. It is lowest for 1 "
    "token and approaches, but stays below, the dashed line at 2.",
)
def backward_to_forward() -> Figure:
    chart = measured_chart("backward-to-forward-by-tokens")
    x, median, low, high = columns(chart.lines["CPU"])
    drawing, axes = style.new_figure(2.6)
    axes.axhline(2, color=style.MUTED, linestyle="--", linewidth=1)
    axes.text(1, 2.04, "ratio of FLOPs", color=style.MUTED, va="bottom")
    axes.plot(x, median, "o-", color=style.BLUE)
    axes.fill_between(x, low, high, color=style.BLUE, alpha=0.2, linewidth=0)
    style.label_line(axes, x[-1], median[-1], "ratio of times", style.BLUE)
    axes.set_xscale("log", base=4)
    axes.set_xticks(x, [f"{tokens:.0f}" for tokens in x])
    axes.minorticks_off()
    axes.set(xlabel=chart.x, ylabel="backward / forward", ylim=(0, max(2.4, *high)))
    axes.grid(axis="y")
    return drawing


TOKENS_OF_A_STEP = 2 * 16 * 1024  # of the last rung, which has twice the batch
METERED = "the last rung under Lab 02's meter"


@figure(
    "gpt2-ladder",
    caption="GPT-2 124M on one H200 (2026-11-26, torch 2.11), one technique more in each row: tokens/s, how many times "
    "as fast as the row above, and MFU. The loop becomes [11 times](claim:gpt2-ladder) as fast. Five techniques give "
    "nearly all of it, and one of them is 47 unused tokens in the vocabulary.",
    description="Ten horizontal bars of tokens per second. Lab 02's loop: 46,351, an MFU of 4 percent. Fused attention "
    "54,100; TF32 135,953; bf16 autocast 230,774; a vocabulary of 50,304 359,590; fused AdamW 372,758; torch.compile "
    "512,652; twice the batch 517,549; cuDNN's attention 523,298, an MFU of 45 percent. The last rung under Lab 02's "
    "meter, in gray: 519,183.",
)
def gpt2_ladder() -> Figure:
    rungs = measured_chart("gpt2-ladder").lines["tokens/s"]
    rates = {str(name): rate for name, rate, *_ in rungs}
    mfu_per_rate = measured_value("gpt2-ladder")["MFU in %"] / max(rates.values())
    drawing, axes = style.new_figure(4.2)
    before = 0.0
    for place, (name, rate, low, high) in enumerate(rungs):
        metered = name == METERED
        axes.barh(place, rate, 0.68, color=style.GRAY if metered else style.BLUE)
        axes.hlines(place, low, high, color=style.INK, linewidth=1.2)
        axes.text(high + 8000, place, f"{rate:,.0f}", va="center", weight="bold")
        gain = "" if metered or not before else f"× {rate / before:.2f}"
        axes.text(720_000, place, gain, va="center", ha="right")
        axes.text(810_000, place, f"{rate * mfu_per_rate:.0f} %", va="center", ha="right")
        before = rate
    axes.text(720_000, -0.75, "gain", ha="right", va="bottom", color=style.MUTED)
    axes.text(810_000, -0.75, "MFU", ha="right", va="bottom", color=style.MUTED)
    names = [name.replace("attention in", "attention\nin").replace("rung under", "rung\nunder") for name in rates]
    axes.set_yticks(range(len(names)), names, multialignment="right")
    axes.set(xlabel="tokens/s", xlim=(0, 815_000), ylim=(len(names) - 0.5, -0.8))
    axes.set_xticks(range(0, 500_001, 100_000), [f"{rate:,}" for rate in range(0, 500_001, 100_000)])
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "fastest-step-by-kernels",
    caption="One step of the ladder's fastest rung, 32,768 tokens on one H200, by what the GPU does. Products and "
    "attention are [69 %](claim:gpt2-kernels) of the kernels' time. A step of these two alone would be above 50 % MFU; "
    "the compiled point-wise operations, which move bytes, keep the real step below.",
    description="Three horizontal bars in milliseconds. The step, 62.6: matrix products 33.5, attention 7.6, compiled "
    "point-wise operations 15.8, optimizer 1.0, other and copies 1.7, the GPU waits 3.0; MFU 45 percent. Products and "
    "attention alone: 41.1, MFU 69 percent. The FLOPs at the peak of 989 TFLOP/s: 28.3, MFU 100 percent. A dashed line "
    "at 56.6 ms marks an MFU of 50 percent; the step is longer.",
)
def fastest_step_by_kernels() -> Figure:
    kernels = {str(name): ms for name, ms, *_ in measured_chart("gpt2-kernels").lines["ms per step"]}
    rate = max(rate for name, rate, *_ in measured_chart("gpt2-ladder").lines["tokens/s"] if name != METERED)
    step = 1e3 * TOKENS_OF_A_STEP / rate
    at_peak = step * measured_value("gpt2-ladder")["MFU in %"] / 100
    products, attention = kernels["matrix products"], kernels["attention"]
    parts = {
        "matrix products": (products, style.BLUE),
        "attention": (attention, style.PURPLE),
        "point-wise": (kernels["compiled point-wise operations and sums"], style.ORANGE),
        "optimizer": (kernels["optimizer"], style.GREEN),
        "other": (kernels["other operations"] + kernels["copies"], style.SKY),
        "the GPU\nwaits": (step - sum(kernels.values()), style.GRAY),
    }
    alone = {name: parts[name] for name in ("matrix products", "attention")}
    drawing, axes = style.new_figure(2.9)
    bars = (
        ("one step", parts),
        ("products and\nattention alone", alone),
        ("its FLOPs\nat the peak", {"": (at_peak, style.AMBER)}),
    )
    for place, (_, row) in enumerate(bars):
        left = 0.0
        for name, (ms, color) in row.items():
            axes.barh(place, ms, 0.6, left=left, color=color)
            if name and ms > 5:
                text = f"{name}\n{ms:.1f}"
                axes.text(left + ms / 2, place, text, ha="center", va="center", color=style.text_on(color), fontsize=9)
            left += ms
        axes.text(left + 0.8, place, f"{left:.1f} ms\nMFU {100 * at_peak / left:.0f} %", va="center", weight="bold")
    half = 2 * at_peak
    axes.plot([half, half], [0.36, 2.45], "--", color=style.MUTED, linewidth=1)
    axes.text(half + 0.8, 2, f"MFU 50 %:\n{half:.1f} ms", va="center", color=style.MUTED)
    left, above = products + attention + parts["point-wise"][0], -0.36
    for name, shift in (("optimizer", -3.2), ("other", 1.0), ("the GPU\nwaits", 3.0)):
        ms, color = parts[name]
        label = f"{name.replace(chr(10), ' ')} {ms:.1f}"
        height = {"optimizer": 0.0, "other": 0.24, "the GPU\nwaits": 0.0}[name]
        axes.annotate(
            label, (left + ms / 2, -0.3), xytext=(left + ms / 2 + shift, above - 0.1 - height),
            ha={"optimizer": "right", "other": "center"}.get(name, "left"), va="bottom", fontsize=9,
            color=style.WORDS.get(color, color),
            arrowprops={"arrowstyle": "-", "color": style.MUTED, "lw": 0.7, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
        left += ms
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], multialignment="right")
    axes.set(xlabel="ms", xlim=(0, 72), ylim=(2.5, -1.0))
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "gradient-over-depth",
    caption="Gradient at each of 30 tanh layers, divided by the gradient at the last layer. At layer 1 this ratio is "
    "[10⁻⁸](claim:gradients-by-depth) if the weights are small (gain 0.5), and thousands if they are large (gain 3). "
    "A residual connection with a norm keeps it within about ten times.",
    description="Five lines over layers 1 to 30 on a logarithmic axis; all end at 1 in layer 30. With a gain of 0.5 "
    "the line falls to 10 to the minus 8 at layer 1. With a gain of 1 it stays near 1. With a gain of 3 it rises to "
    "4,000 at layer 1. The two lines with a residual connection and a norm stay between 1 and 13.",
)
def gradient_over_depth() -> Figure:
    chart = measured_chart("gradients-by-depth")
    colors = {"0.5": style.ORANGE, "1": style.GRAY, "3": style.PURPLE}
    drawing, axes = style.new_figure(3.2)
    for name, line in chart.lines.items():
        x, sizes, *_ = columns(line)
        bounded = "residual" in name
        color = style.BLUE if bounded else colors[name]
        axes.plot(x, sizes, color=color, linestyle="--" if name.startswith("0.5,") else "-")
        if not bounded:
            axes.text(0.6, sizes[0], f"gain {name}", color=color, ha="right", va="center")
    axes.text(3, 0.2, "gain 0.5 (dashed) and 3,\nwith residual connection and norm", color=style.BLUE, va="top")
    axes.set_yscale("log")
    axes.set_yticks([1e-8, 1e-6, 1e-4, 1e-2, 1, 1e2, 1e4], ["10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "1", "10²", "10⁴"])
    axes.minorticks_off()
    axes.set_xticks([1, 5, 10, 15, 20, 25, 30])
    axes.set(xlabel="layer", ylabel="gradient / that of layer 30", xlim=(-3, 30.5), ylim=(3e-9, 3e4))
    axes.grid(axis="y")
    return drawing
