"""Figures of the chapter on MFU."""

from dataclasses import dataclass, replace

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankzero.figures import style
from rankzero.figures.charts import measured_chart, measured_value
from rankzero.figures.figure import figure
from rankzero.ledger.models import PRESETS
from rankzero.ledger.plan.step_time import model_flops

TOKENS_OF_A_STEP = 2 * 16 * 1024  # of the last rung, which has twice the batch
METERED = "the last rung under Lab 02's meter"
FASTEST = replace(PRESETS["gpt2"], vocab_size=50_304)  # the model of the fastest rung


@dataclass(frozen=True)
class KernelStep:
    """The fastest step of the ladder, in ms: the whole step, its FLOPs at the peak, and its kernels by family."""

    total: float
    at_peak: float
    kernels: dict[str, float]


def fastest_step() -> KernelStep:
    """Reads the fastest step from the measurements of the ladder and of its kernels."""
    kernels = {str(name): ms for name, ms, *_ in measured_chart("gpt2-kernels").lines["ms per step"]}
    rate = max(rate for name, rate, *_ in measured_chart("gpt2-ladder").lines["tokens/s"] if name != METERED)
    total = 1e3 * TOKENS_OF_A_STEP / rate
    return KernelStep(total, total * measured_value("gpt2-ladder")["MFU in %"] / 100, kernels)


def attention_share() -> float:
    """Returns the share of attention's two products, 12LHQT, in the model's FLOPs per token."""
    flops = model_flops(FASTEST, tokens=1, seq_len=FASTEST.block_size)
    return 12 * FASTEST.n_layer * FASTEST.hidden_dim * FASTEST.block_size / flops


@figure(
    "mfu-as-an-area",
    caption="One training step of GPT-2 124M, the fastest of this chapter, on one H200 (2026-11-26, torch 2.11), by "
    "[what the GPU does](claim:gpt2-kernels). The width of a block is its time, its height is its rate. The filled "
    "area is the MFU. The empty area has two parts: products and attention run below the peak, and other work takes "
    "time. The second part is larger.",
    description="A rectangle, as wide as the step in milliseconds and as high as the peak, 100 percent. From the left: "
    "matrix products, a wide block about three quarters high; attention, a narrow block about half as high; point-wise "
    "operations, optimizer and waiting, without height. A dashed line across the rectangle marks the MFU, below half.",
)
def mfu_as_an_area() -> Figure:
    step, share = fastest_step(), attention_share()
    products, attention = step.kernels["matrix products"], step.kernels["attention"]
    point_wise = step.kernels["compiled point-wise operations and sums"]
    blocks = (
        ("matrix\nproducts", products, (1 - share) * step.at_peak / products, style.BLUE),
        ("attention", attention, share * step.at_peak / attention, style.PURPLE),
        ("point-wise\noperations", point_wise, 0.0, style.PANEL),
        ("rest", step.total - products - attention - point_wise, 0.0, style.PANEL),
    )
    drawing, axes = style.new_figure(3.1)
    left = 0.0
    for name, ms, rate, color in blocks:
        axes.add_patch(Rectangle((left, 0), ms, 100, facecolor=style.PANEL, edgecolor=style.MUTED, linewidth=0.8))
        axes.add_patch(Rectangle((left, 0), ms, 100 * rate, facecolor=color))
        text = f"{name}\n{ms:.1f} ms" + (f"\nat {100 * rate:.0f} %" if rate else "")
        axes.text(left + ms / 2, 22, text, ha="center", va="center", color=style.text_on(color), fontsize=9)
        left += ms
    mfu = 100 * step.at_peak / step.total
    axes.plot([0, step.total], [mfu, mfu], "--", color=style.INK, linewidth=1)
    axes.text(step.total, mfu, f"  MFU {mfu:.0f} %", va="center", weight="bold")
    axes.set(xlabel="time of one step, sorted by what the GPU does, in ms", ylabel="rate, in % of the peak")
    axes.set(xlim=(0, 1.16 * step.total), ylim=(0, 101))
    axes.set_xticks(range(0, 61, 10))
    return drawing


@figure(
    "gpt2-ladder",
    caption="GPT-2 124M on one H200 (2026-11-26, torch 2.11), one technique more in each row: tokens/s, how many times "
    "as fast as the row above, and MFU. The loop becomes [11 times](claim:gpt2-ladder) as fast. Five techniques give "
    "nearly all of the speedup, and one of them is 47 unused tokens in the vocabulary.",
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
        axes.text(745_000, place, gain, va="center", ha="right")
        axes.text(830_000, place, f"{rate * mfu_per_rate:.0f} %", va="center", ha="right")
        before = rate
    axes.text(745_000, -0.75, "gain", ha="right", va="bottom", color=style.MUTED)
    axes.text(830_000, -0.75, "MFU", ha="right", va="bottom", color=style.MUTED)
    names = [name.replace("attention in", "attention\nin").replace("rung under", "rung\nunder") for name in rates]
    axes.set_yticks(range(len(names)), names, multialignment="right")
    axes.set(xlabel="tokens/s", xlim=(0, 835_000), ylim=(len(names) - 0.5, -0.8))
    axes.set_xticks(range(0, 500_001, 100_000), [f"{rate:,}" for rate in range(0, 500_001, 100_000)])
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "fastest-step-by-kernels",
    caption="One step of the ladder's fastest rung, 32,768 tokens on one H200, by what the GPU does. Products and "
    "attention are [69 %](claim:gpt2-kernels) of the kernels' time. A step of these two alone would be above 50 % MFU; "
    "the compiled point-wise operations, which move bytes, keep the step below 50 %.",
    description="Three horizontal bars in milliseconds. The step, 62.6: matrix products 33.5, attention 7.6, compiled "
    "point-wise operations 15.8, optimizer 1.0, other and copies 1.7, the GPU waits 3.0; MFU 45 percent. Products and "
    "attention alone: 41.1, MFU 69 percent. The FLOPs at the peak of 989 TFLOP/s: 28.3, MFU 100 percent. A dashed line "
    "at 56.6 ms marks an MFU of 50 percent; the step is longer.",
)
def fastest_step_by_kernels() -> Figure:
    found = fastest_step()
    step, at_peak, kernels = found.total, found.at_peak, found.kernels
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
