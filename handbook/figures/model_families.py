"""Figures of the chapter on model families."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import measured_chart, measured_value
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box

ROLES = {
    "weights": style.WEIGHTS,
    "gradients": style.GRADIENTS,
    "optimizer": style.OPTIMIZER,
    "activations": style.ACTIVATIONS,
}


@figure(
    "family-sizes",
    caption="One example through three models in fp32: a picture of 224 × 224 pixels through ResNet-50, 1,024 tokens "
    "through GPT-2, a picture with its caption through CLIP ViT-B/32. The model with the most parameters keeps "
    "[the fewest activations](claim:families-activations) per example.",
    description="Three groups of horizontal bars. Parameters in millions: ResNet-50 26, GPT-2 124, CLIP 151. "
    "Activations per example in MB: 86, 817, 61. Forward GFLOPs per example: 8, 292, 15.",
)
def family_sizes() -> Figure:
    drawing, panels = style.new_figure(2.3, columns=3, sharey=True)
    titles = {
        "families-parameters": ("parameters", "millions", style.WEIGHTS),
        "families-activations": ("activations", "MB per example", style.ACTIVATIONS),
        "families-flops": ("forward FLOPs", "10⁹ per example", style.AMBER),
    }
    for axes, (slug, (title, unit, color)) in zip(panels, titles.items(), strict=True):
        numbers = measured_value(slug)
        axes.barh(list(numbers), list(numbers.values()), 0.6, color=color)
        for row, number in enumerate(numbers.values()):
            axes.annotate(f"{number:,.0f}", (number, row), xytext=(3, 0), textcoords="offset points", va="center")
        axes.set(title=title, xlabel=unit, xlim=(0, 1.3 * max(numbers.values())))
        axes.locator_params(axis="x", nbins=3)
    panels[0].invert_yaxis()
    return drawing


@figure(
    "frozen-places",
    caption="A trained block, and a frozen block in two places; data flow from left to right. A frozen block in front "
    "of every trained part runs forward only. A frozen block behind a trained part must pass the gradient on, so it "
    "also runs backward and keeps [10 of 16 tensors](claim:families-frozen-kept).",
    description="Three rows of boxes from left to right. First row: a trained block, with forward and backward "
    "arrows, keeps 16 tensors and costs 3 forwards. Second row: a frozen block behind a trained projector keeps 10 "
    "and costs about 2. Third row: a frozen block in front of a trained head keeps 0 and costs 1.",
)
def frozen_places() -> Figure:
    drawing, axes = style.new_figure(2.9)
    style.blank(axes, 24, 9.6)
    kept, cost = measured_value("families-frozen-kept"), measured_value("families-frozen-flops")
    rows = {
        "trained": ("block trains", style.BLUE, "loss"),
        "frozen, behind a trained part": ("block is frozen", style.PANEL, "loss"),
        "frozen, in front": ("block is frozen", style.PANEL, "head trains"),
    }
    before = ("input", "projector trains", "input")
    axes.text(18.2, 0.5, "keeps", fontweight="bold", ha="center", va="center")
    axes.text(22, 0.5, "FLOPs", fontweight="bold", ha="center", va="center")
    for row, ((name, (text, color, after)), first) in enumerate(zip(rows.items(), before, strict=True)):
        y = 1.3 + 2.8 * row
        for x, words, area in (
            (0.2, first, style.BLUE if "trains" in first else style.PAPER),
            (6, text, color),
            (11.8, after, style.BLUE if "trains" in after else style.PAPER),
        ):
            box(axes, x, y, 4.4, 2, words, color=area)
        for x in (4.6, 10.4):
            arrow(axes, (x, y + 0.6), (x + 1.4, y + 0.6))
        backward = {"trained": (10.4,), "frozen, behind a trained part": (4.6, 10.4), "frozen, in front": ()}[name]
        for x in backward:
            arrow(axes, (x + 1.4, y + 1.5), (x, y + 1.5), color=style.ORANGE)
        axes.text(18.2, y + 1, f"{kept[name]:.0f} tensors", ha="center", va="center")
        axes.text(22, y + 1, f"{cost[name]:.1f} × forward", ha="center", va="center")
    axes.text(11.1, 9.5, "orange: gradients", color=style.WORDS[style.ORANGE], ha="center", va="center")
    return drawing


@figure(
    "llava-stages",
    caption="Memory of a training step of LLaVA-1.5 7B on one picture with 100 tokens of text, by the parts that "
    "train. If the projector trains alone, weights, gradients and optimizer state take [14.4 "
    "GB](claim:families-llava-states). Most activations remain, because the frozen language model is behind the "
    "projector.",
    description="Three stacked horizontal bars. Projector: 14.1 GB of weights, hardly any gradients and optimizer "
    "state, 2.9 GB of activations. Projector and LLM: 14.1 of weights, 13.5 of gradients, 81 of optimizer state, 4.4 "
    "of activations. Everything: 14.1, 14.1, 84.8 and 4.9.",
)
def llava_stages() -> Figure:
    drawing, axes = style.new_figure(2.2)
    chart = measured_chart("families-llava-states")
    stages = [str(point[0]) for point in chart.lines["weights"]]
    left = [0.0] * len(stages)
    for role, color in ROLES.items():
        sizes = [point[1] for point in chart.lines[role]]
        axes.barh(stages, sizes, 0.6, left=left, color=color, label=role)
        left = [start + size for start, size in zip(left, sizes, strict=True)]
    for row, total in enumerate(left):
        axes.annotate(f"{total:.1f} GB", (total, row), xytext=(4, 0), textcoords="offset points", va="center")
    axes.invert_yaxis()
    axes.set(xlabel="GB", xlim=(0, 135))
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.45, 1.0), columnspacing=1.2)
    return drawing
