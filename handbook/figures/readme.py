"""Figure of README.md."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.activations import kept_bytes, kept_tensors
from rankzero.ledger.ledger import BEGIN, UPDATE, Kind
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.predict import predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

LAB_02, BATCH, TOKENS = GPTConfig(vocab_size=96), 12, 64
COLORS = {
    "weights": style.WEIGHTS,
    "optimizer state": style.OPTIMIZER,
    "gradients": style.GRADIENTS,
    "activations": style.ACTIVATIONS,
    "temporary buffers": style.TEMPORARY,
}


def activations(where: str) -> int:
    """Returns the bytes that one block, or the model's first or last part, keeps for backward."""
    kept = kept_tensors(LAB_02, RECIPES["fp32"])
    return sum(kept_bytes(tensor, BATCH, TOKENS, Layout()) for tensor in kept if tensor.where == where)


def moments() -> Iterator[tuple[float, tuple[float, ...]]]:
    """Yields (time in blocks, MiB by kind) over the first two steps; between moments memory changes evenly."""
    ledger = predict(LAB_02, RECIPES["fp32"], OPTIMIZERS["adamw"], batch_size=BATCH, seq_len=TOKENS)
    of_loss, of_update = (ledger.at(phase)[Kind.TEMPORARY] for phase in (BEGIN, UPDATE))
    weights, averages = ledger.total(Kind.WEIGHTS), ledger.total(Kind.OPTIMIZER)
    first, block, last = (activations(where) for where in ("first", "block", "last"))
    width, blocks = LAB_02.hidden_dim, LAB_02.n_layer
    block_gradient = 4 * (12 * width**2 + 2 * width)
    end_gradient = (
        4 * width * (LAB_02.vocab_size + 1)
    )  # of the output layer, which is the token embedding, and its norm
    state, time = 0, 0.0

    def at(*sizes: float) -> tuple[float, tuple[float, ...]]:
        return time, tuple(size / 2**20 for size in sizes)

    for _ in range(2):
        yield at(weights, state, 0, 0, 0)
        yield at(weights, state, 0, first, 0)
        for done in range(1, blocks + 1):
            time += 1
            yield at(weights, state, 0, first + done * block, 0)
        time += 0.5
        yield at(weights, state, 0, first + blocks * block + last, 0)
        yield at(weights, state, 0, first + blocks * block + last, of_loss)
        time += 0.5
        yield at(weights, state, 0, first + blocks * block + last, of_loss)
        yield at(weights, state, end_gradient, first + blocks * block, 0)
        for left in range(blocks - 1, -1, -1):
            time += 2  # backward of a block takes about twice its forward
            yield at(weights, state, end_gradient + (blocks - left) * block_gradient, first + left * block, 0)
        yield at(weights, state, weights, 0, 0)
        state = averages
        yield at(weights, state, weights, 0, of_update)
        time += 3
        yield at(weights, state, weights, 0, of_update)
        yield at(weights, state, weights, 0, 0)


@figure(
    "two-steps-of-lab-02",
    caption="Memory over the first two training steps of Lab 02, by the project's formulas. Forward keeps "
    "[25.14 MiB](claim:lab-02-activations-by-phase) of activations; backward frees them and leaves gradients. The "
    "first update adds [6.17 MiB](claim:adamw-state-appears-at-the-first-update) of optimizer state, so step 2 peaks "
    "higher: a run that fits in step 1 can run out of memory in step 2.",
    description="A stacked area chart of MiB over two training steps. In each step activations rise block by block in "
    "forward and fall in backward, while gradients grow. Weights take 3.08 MiB throughout. After the first update the "
    "optimizer's state takes 6.17 MiB more, which stays. Step 1 peaks at about 29 MiB and step 2 at about 35 MiB.",
)
def two_steps() -> Figure:
    times, sizes = zip(*moments(), strict=True)
    drawing, axes = style.new_figure(3.3)
    axes.stackplot(times, *zip(*sizes, strict=True), colors=list(COLORS.values()), linewidth=0)
    totals = [sum(each) for each in sizes]
    half = len(times) // 2
    for step, begin in enumerate((0, half)):
        peak = max(range(begin, begin + half), key=totals.__getitem__)
        axes.annotate(
            f"{totals[peak]:.1f} MiB", (times[peak], totals[peak]), (0, 4), textcoords="offset points", ha="center",
            fontweight="bold",
        )  # fmt: skip
        start, end = times[begin], times[begin + half - 1]
        for left, right, phase in ((0, 5, "forward"), (5, 13, "backward"), (13, 16, "update")):
            axes.text(start + (left + right) / 2, -1.4, phase, ha="center", va="top")
            axes.axvline(start + right, ymax=0.04 if right < 16 else 1, color=style.MUTED, linewidth=0.8, linestyle=":")
        axes.text((start + end) / 2, -4.6, f"step {step + 1}", ha="center", va="top", fontweight="bold")
    for x, y, name in ((6, 16, "activations"), (22, 6.2, "optimizer state"), (22, 1.5, "weights")):
        axes.text(x, y, name, ha="center", va="center", color=style.text_on(COLORS[name]))
    axes.text(14.5, 14.4, "gradients", color=style.GRADIENTS, ha="center", va="center", fontsize=9)
    axes.text(5.7, 27.4, "temporary buffers", color=style.TEMPORARY, va="center")
    axes.set(ylabel="MiB", xlim=(0, times[-1]), ylim=(0, 41), xticks=[])
    return drawing
