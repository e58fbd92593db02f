"""Figures of the page of Lab 01."""

from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.shapes import box
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.ledger import PHASES, Kind
from rankzero.ledger.models import PRESETS
from rankzero.ledger.predict import predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

COLORS = {
    Kind.WEIGHTS: style.WEIGHTS,
    Kind.OPTIMIZER: style.OPTIMIZER,
    Kind.GRADIENTS: style.GRADIENTS,
    Kind.ACTIVATIONS: style.ACTIVATIONS,
    Kind.TEMPORARY: style.TEMPORARY,
}


def draw_moments(axes: Axes, preset: str, recipe: str, **step: Any) -> None:
    """Draws the four moments of one step as stacked bars in GB, with each sum; the fullest is bold."""
    ledger = predict(PRESETS[preset], RECIPES[recipe], OPTIMIZERS["adamw"], **step)
    fullest = ledger.peak()[0]
    for place, phase in enumerate(PHASES):
        sizes = [ledger.at(phase)[kind] / 1e9 for kind in COLORS]
        for color, size, top in zip(COLORS.values(), sizes, accumulate(sizes), strict=True):
            axes.bar(place, size, 0.7, bottom=top - size, color=color)
        weight = "bold" if phase == fullest else "normal"
        text = f"{sum(sizes):.2f}" if sum(sizes) < 10 else f"{sum(sizes):.0f}"
        axes.text(place, sum(sizes) + 0.015 * ledger.peak()[1] / 1e9, text, ha="center", va="bottom", weight=weight)
    axes.set_xticks(range(len(PHASES)), [phase.replace(" ", "\n") for phase in PHASES])
    axes.set_ylim(0, 1.2 * ledger.peak()[1] / 1e9)


@figure(
    "lab-01-four-moments",
    caption="Two runs of this lab, in GB, at four moments of a step. GPT-2's step is fullest "
    "[when backward begins](claim:lab-01-gpt2-peak). Llama-2-7B's step is fullest "
    "[in the update](claim:lab-01-llama-peak): its batch is small and its optimizer state large.",
    description="Two groups of four stacked bars, one per moment of a step. GPT-2 with 4 sequences: 4.76 GB when "
    "forward ends, 6.41 when backward begins, 1.99 when backward ends, 2.30 in the update; activations are the largest "
    "part. Llama-2-7B with 1 sequence: 121, 122, 108 and 136 GB; optimizer state is the largest part, and temporary "
    "buffers of the update make the last bar the tallest.",
)
def four_moments() -> Figure:
    drawing, (left, right) = style.new_figure(3.3, columns=2)
    draw_moments(left, "gpt2", "fp32", batch_size=4, seq_len=1024)
    draw_moments(right, "llama-2-7b", "mixed", batch_size=1, seq_len=4096)
    left.set(title="GPT-2, fp32, 4 sequences", ylabel="GB")
    right.set_title("Llama-2-7B, mixed, 1 sequence")
    names = ("temporary buffers", "activations", "gradients", "optimizer state", "weights")
    for row, (name, color) in enumerate(zip(names, reversed(COLORS.values()), strict=True)):
        left.text(3.4, 7.2 - 0.55 * row, name, color=color, ha="right", va="center")
    return drawing


@figure(
    "lab-01-one-block",
    caption="Tensors that one block of GPT-2 keeps for backward, to scale: with fused attention [16 tensors](claim:"
    "block-keeps-16-units) of shape [B, T, C]. If attention is not fused, its probabilities [B, H, T, T] "
    "come on top, at T = 1,024 as much again.",
    description="A row of boxes whose width is a tensor's size in units of B times T times C: norms 2, attention "
    "input 1, q, k and v 3, attention output 1, MLP input 1, before GELU 4, after GELU 4, together 16. Below them, "
    "as wide as the whole row, the probabilities of attention that is not fused.",
)
def one_block() -> Figure:
    config = PRESETS["gpt2"]
    parts = (
        ("2\nnorms'\ninput", 2, style.GRAY), ("1", 1, style.BLUE), ("3\nq, k, v", 3, style.BLUE), ("1", 1, style.BLUE),
        ("1", 1, style.PURPLE), ("4\nbefore GELU", 4, style.PURPLE), ("4\nafter GELU", 4, style.PURPLE),
    )  # fmt: skip
    drawing, axes = style.new_figure(2.5)
    style.blank(axes, 16.2, 5.6)
    axes.set_aspect("auto")
    left = 0.0
    for text, size, color in parts:
        box(axes, left, 0.9, size, 1.7, text, color=color, edge=style.PAPER, line=1.5)
        left += size
    for x, width, text, color in (
        (2, 5, "attention: input, q k v, output", style.BLUE),
        (7, 9, "MLP: input, before and after GELU", style.PURPLE),
    ):
        axes.text(x + width / 2, 0.6, text, color=color, ha="center", va="center")
    probabilities = config.n_head * config.block_size / config.hidden_dim
    box(
        axes,
        0,
        3.6,
        probabilities,
        1.4,
        "attention that is not fused: probabilities, H·T / C = 16",
        color=style.PANEL,
        edge=style.AMBER,
        line=1.5,
    )
    axes.text(0, 3.1, "width: numbers in units of B·T·C", color=style.MUTED, va="center", fontsize=9)
    return drawing


@figure(
    "lab-01-break-it",
    caption="Validation over four batches. Added up as tensors, the losses keep every batch's graph, and memory grows "
    "by 25.1 MiB per batch. With `.item()` each graph is freed with its batch; under `no_grad` no graph is built.",
    description="Three lines of activations in MiB over four batches. The line of tensors climbs by 25.1 in each "
    "batch, to 100.6. The line with item climbs to 25.1 in each batch and falls to 0 at its end. The line of no_grad "
    "is 0.",
)
def break_it() -> Figure:
    step = predict(GPTConfig(vocab_size=96), RECIPES["fp32"], OPTIMIZERS["sgd"], batch_size=12, seq_len=64)
    batch = step.total(Kind.ACTIVATIONS) / 2**20
    drawing, axes = style.new_figure(2.9)
    axes.plot(range(5), [batch * place for place in range(5)], color=style.ORANGE)
    axes.plot([0, 1, 1, 2, 2, 3, 3, 4, 4], [0, batch] * 4 + [0], color=style.BLUE)
    axes.plot([0, 4], [0, 0], color=style.GREEN, linewidth=3)
    axes.text(2.9, 82, "total + loss", color=style.ORANGE, ha="right")
    axes.text(4.05, batch, "total + loss.item()", color=style.BLUE, va="center")
    axes.text(4.05, 0, "no_grad and .item()", color=style.GREEN, va="center")
    axes.set_xticks(range(5), ["start", "1", "2", "3", "4"])
    axes.set(xlabel="batches evaluated", ylabel="activations (MiB)", ylim=(-4, 112), xlim=(0, 5.05))
    return drawing
