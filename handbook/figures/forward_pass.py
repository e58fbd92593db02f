"""Figures of the chapter on the forward pass."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.activations import kept_tensors
from rankzero.ledger.models import PRESETS, Config, parameter_count
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.predict import activation_rows
from rankzero.ledger.recipes import FP32, OPTIMIZERS, bytes_per_parameter

LAB_02 = GPTConfig(vocab_size=96)
TOKENS = 12 * 64  # B = 12, T = 64
MIB = 2**20

ATTENTION = {"attention: q, k, v": 1.0, "attention: output": 1.0, "attention: log-sum-exp": 1.0}
# Each operation of a block, the tensors of the ledger that it keeps (with its share of them), and their names.
OPERATIONS: tuple[tuple[str, dict[str, float], str], ...] = (
    ("norm1", {"norms: input": 0.5, "norms: mean, 1/std": 0.5}, "its input"),
    ("attention.qkv", {"attention: input": 1}, "its input"),
    ("attention", ATTENTION, "q, k, v and its output"),
    ("attention.proj", {}, "nothing more: its input is attention's output"),
    ("+", {}, "nothing"),
    ("norm2", {"norms: input": 0.5, "norms: mean, 1/std": 0.5}, "its input"),
    ("mlp.up", {"MLP: input": 1}, "its input"),
    ("GELU", {"MLP: before GELU": 1}, "its input"),
    ("mlp.proj", {"MLP: after GELU": 1}, "its input"),
    ("+", {}, "nothing"),
)


def block_bytes(config: Config, tokens: int) -> dict[str, int]:
    """Bytes of each tensor that one block keeps in fp32, by the ledger's name."""
    return {kept.name: kept.count * kept.size * tokens for kept in kept_tensors(config, FP32) if kept.where == "block"}


def activation_bytes(config: Config, tokens: int) -> int:
    """Bytes of all activations in fp32 of one sequence; with fused attention they depend on B · T alone."""
    return sum(row.bytes for row in activation_rows(config, FP32, 1, tokens, Layout()))


@figure(
    "kept-along-a-block",
    caption="Memory that one block of Lab 02's GPT keeps for backward, operation by operation, for 12 sequences of 64 "
    "tokens in fp32: in all [16 times](claim:block-keeps-16-units) the size of the block's input. `mlp.up`, GELU "
    "and `mlp.proj` keep 9 of these 16, additions none.",
    description="Ten horizontal bars in the order of the block's operations. norm1 0.38 MiB, attention.qkv 0.38, "
    "attention 1.5, attention.proj and the addition nothing, norm2 0.38, mlp.up 0.38, GELU 1.5, mlp.proj 1.5, the "
    "second addition nothing. Each bar's label names the kept tensors.",
)
def kept_along_a_block() -> Figure:
    sizes = block_bytes(LAB_02, TOKENS)
    unit = LAB_02.hidden_dim * 4 * TOKENS / MIB
    drawing, axes = style.new_figure(3.4)
    for place, (name, parts, kept) in enumerate(OPERATIONS):
        size = sum(sizes[part] * share for part, share in parts.items()) / MIB
        axes.barh(place, size, 0.66, color=style.ACTIVATIONS)
        for cut in range(1, int(size / unit + 0.5)):
            axes.plot([cut * unit] * 2, [place - 0.33, place + 0.33], color=style.PAPER, linewidth=1)
        axes.text(-0.04, place, name, ha="right", va="center", fontweight="bold")
        amount = f"{size:.2f} MiB: " if size else ""
        axes.text(size + 0.04, place, f"{amount}{kept}", va="center", color=style.INK if size else style.MUTED)
    axes.set_yticks([])
    axes.set(ylim=(len(OPERATIONS) - 0.4, -0.6), xlim=(0, 2.9), xlabel="MiB kept for backward")
    axes.spines["left"].set_visible(False)
    return drawing


@figure(
    "attention-square",
    caption="Memory that attention keeps for one sequence in one layer of Lab 02's width (C = 128, 4 heads). The "
    "softmax of attention by the formula grows [4 times](claim:attention-square-and-line) with each doubling of T, "
    "fused attention 2 times. At 512 tokens the softmax alone takes as much as the rest of the block. Dots are "
    "measured, lines are formulas.",
    description="Three straight lines on logarithmic axes of tokens from 64 to 16,384. Fused attention rises from 0.1 "
    "to 32 MiB, the whole block with fused attention from 0.5 to 128 MiB. The softmax rises twice as steeply, from "
    "0.06 MiB to 4 GiB, and crosses the block's line at 512 tokens.",
)
def attention_square() -> Figure:
    drawing, axes = style.new_figure(3.2)
    lengths = [2**power for power in range(6, 15)]
    width, heads = LAB_02.hidden_dim, LAB_02.n_head
    block = [sum(block_bytes(LAB_02, length).values()) / MIB for length in lengths]
    fused = [sum(block_bytes(LAB_02, length)[name] for name in ATTENTION) / MIB for length in lengths]
    softmax = [4 * heads * length**2 / MIB for length in lengths]
    for line, color, name in (
        (softmax, style.ORANGE, "softmax, [T, T] per head"),
        (block, style.GRAY, "block with fused attention"),
        (fused, style.BLUE, "fused attention"),
    ):
        axes.plot(lengths, line, color=color)
        style.label_line(axes, lengths[-1], line[-1], name, color)
    for name, points in measured_chart("attention-square-and-line").lines.items():
        tokens, kept, _, _ = columns(points)
        axes.plot(tokens, kept, "o", color=style.BLUE if name == "fused" else style.ORANGE, markersize=5)
    crossing = 16 * width // heads
    axes.axvline(crossing, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.text(crossing * 1.08, 0.03, f"T = 16 C/H = {crossing}", color=style.MUTED, fontsize=9.5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths[::2], [f"{length:,}" for length in lengths[::2]])
    axes.set_yticks([0.1, 1, 10, 100, 1000], ["0.1", "1", "10", "100", "1,000"])
    axes.minorticks_off()
    axes.set(xlabel="tokens T", ylabel="MiB kept, per sequence and layer", xlim=(60, 16_384 * 14), ylim=(0.02, 6000))
    axes.grid(axis="y")
    return drawing


@figure(
    "activation-share",
    caption="Share of activations in fp32 training memory with AdamW, by the tokens of a batch. Lab 02's model has "
    "[2 %](claim:activation-share) at 8 tokens and [89 %](claim:activation-share) at 3,072. The share is "
    "near one half at 3C tokens, where C is the model's width. Dots are measured, lines are formulas.",
    description="Two rising curves from near 0 to near 100 % over tokens from 4 to 100,000 on a logarithmic axis. Lab "
    "02's model crosses 50 % at 377 tokens, near 3C = 384, GPT-2 at about 2,500, near 3C = 2,304.",
)
def activation_share() -> Figure:
    drawing, axes = style.new_figure(3.0)
    state = bytes_per_parameter(FP32, OPTIMIZERS["adamw"])
    batches = [round(4 * 10 ** (step / 10)) for step in range(45)]
    for config, name, color in (
        (LAB_02, "Lab 02's model, C = 128", style.PURPLE),
        (PRESETS["gpt2"], "GPT-2, C = 768", style.GREEN),
    ):
        held = [activation_bytes(config, tokens) for tokens in batches]
        shares = [100 * size / (size + state * parameter_count(config)) for size in held]
        axes.plot(batches, shares, color=color)
        half = 3 * config.hidden_dim
        axes.plot([half, half], [0, 50], color=color, linewidth=1, linestyle=":")
        axes.text(half * 1.07, 3, f"3C = {half:,}", color=color, fontsize=9.5)
        place = (150, 84) if config is LAB_02 else (9000, 66)
        axes.text(*place, name, color=color, ha="right" if config is LAB_02 else "left")
    for line in measured_chart("activation-share").lines.values():
        tokens, shares, _, _ = columns(line)
        axes.plot(tokens, shares, "o", color=style.PURPLE, markersize=5)
    axes.axhline(50, color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xticks([10, 100, 1000, 10_000, 100_000], ["10", "100", "1,000", "10,000", "100,000"])
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.minorticks_off()
    axes.set(xlabel="tokens of a batch, B · T", ylabel="activations, % of the total", xlim=(4, 100_000), ylim=(0, 100))
    return drawing
