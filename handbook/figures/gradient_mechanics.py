"""Figures of the chapter on gradient mechanics."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import draw_lines, measured_chart, measured_value
from rankzero.figures.figure import figure
from rankzero.figures.shapes import box
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.models import parameter_count


@figure(
    "one-update-of-three-micro-batches",
    caption="One update of three micro-batches. Each backward frees its micro-batch's activations and adds a third of "
    "the gradient to `p.grad`. The gradient is complete, and may be clipped, only after the last backward.",
    description="Three tracks over time. On the first, boxes: clear, then forward and backward three times, then clip, "
    "step. On the second, activations rise during each forward and fall during each backward. On the third, p.grad "
    "grows by a third in each backward, up to the whole gradient, and stays until it is cleared.",
)
def one_update() -> Figure:
    drawing, axes = style.new_figure(2.9)
    style.blank(axes, 104, 40)
    axes.set_aspect("auto")
    width, start, ink = 10, 24, style.text_on(style.GRADIENTS)
    box(axes, start - 8, 1, 7, 7, "clear", color=style.PANEL, size=9)
    for index in range(3):
        left = start + 2 * width * index
        box(axes, left, 1, width, 7, f"forward\n{index + 1}", color=style.PANEL, size=9)
        box(axes, left + width, 1, width, 7, f"backward\n{index + 1}", color=style.PANEL, size=9)
        middle, right = left + width, left + 2 * width
        axes.fill([left, middle, right], [22, 12, 22], color=style.ACTIVATIONS, linewidth=0)
        low, high = 38 - 4 * index, 38 - 4 * (index + 1)
        axes.fill([left, middle, right, right, left], [low, low, high, 38, 38], color=style.GRADIENTS, linewidth=0)
        if index:
            axes.text(left + 5, 38 - 2 * index, f"{index}/3", ha="center", va="center", color=ink)
    end = start + 6 * width
    axes.fill([end, end + 17, end + 17, end], [26, 26, 38, 38], color=style.GRADIENTS, linewidth=0)
    axes.text(end + 8.5, 32, "the batch's\ngradient", ha="center", va="center", color=ink, fontsize=9)
    box(axes, end, 1, 8.5, 7, "clip", color=style.AMBER, size=9)
    box(axes, end + 8.5, 1, 8.5, 7, "step", color=style.SKY, size=9)
    for height, text, color in ((17, "activations", style.ACTIVATIONS), (32, "p.grad", style.GRADIENTS)):
        axes.text(start - 10, height, text, ha="right", va="center", color=color, fontweight="bold")
    for height in (22, 38):
        axes.plot([start - 8, end + 17], [height, height], color=style.MUTED, linewidth=0.8)
    return drawing


@figure(
    "activations-by-micro-batch",
    caption="Lab 02's model on a batch of 12 sequences, at the highest memory use of a forward pass, by the size of "
    "the micro-batch. Activations follow the micro-batch, from "
    "[26.4 MB to 2.2 MB](claim:lab-04-activations-follow-the-micro-batch). With accumulation a set of gradients is "
    "added.",
    description="Four horizontal stacked bars. All 12 sequences at once: weights 3.2 MB and activations 26.4 MB. "
    "Micro-batches of 6: weights, gradients of 3.2 MB and activations of 13.2 MB. Of 4: activations of 8.8 MB. Of 1: "
    "activations of 2.2 MB, less than the gradients.",
)
def activations_by_micro_batch() -> Figure:
    measured = measured_value("lab-04-activations-follow-the-micro-batch")
    parameters = 4 * parameter_count(GPTConfig(vocab_size=96)) / 1e6
    drawing, axes = style.new_figure(2.5)
    for place, (size, activations) in enumerate(measured.items()):
        parts = [
            ("weights", parameters, style.WEIGHTS),
            ("gradients", parameters if size != "12" else 0.0, style.GRADIENTS),
            ("activations", activations / 1e6, style.ACTIVATIONS),
        ]
        left = 0.0
        for name, width, color in parts:
            axes.barh(place, width, 0.62, left=left, color=color)
            if place == 1:
                middle = left + width / 2 + (0.4 if name == "gradients" else 0)
                axes.text(middle, place + 0.36, name, ha="center", va="top", color=color, fontsize=9)
            left += width
        axes.text(left + 0.3, place, f"{left:.1f} MB", va="center", fontweight="bold")
    axes.set_yticks(range(4), ["12: the whole batch", "2 × 6", "3 × 4", "12 × 1"])
    axes.set(xlabel="MB", xlim=(0, 34), ylim=(3.5, -0.5))
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "accumulation-error",
    caption="Error of a sum of k micro-batch gradients, by the format of the sum. The gradients themselves are "
    "float64. At 64 micro-batches the bf16 sum is off by [0.9 %](claim:accumulation-in-sixteen-bits) of the gradient's "
    "length, the fp16 sum by eight times less.",
    description="Three rising lines over 2 to 64 micro-batches, on logarithmic axes. bf16 reaches 0.9 % of the "
    "gradient's length, fp16 about 0.1 %, fp32 about 0.00001 %.",
)
def accumulation_error() -> Figure:
    drawing, axes = style.new_figure(2.9)
    colors = {"bf16": style.ORANGE, "fp16": style.GREEN, "fp32": style.BLUE}
    draw_lines(axes, measured_chart("accumulation-in-sixteen-bits"), colors=colors)
    axes.set_yticks([1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1], ["0.00001", "0.0001", "0.001", "0.01", "0.1", "1"])
    axes.minorticks_off()
    return drawing
