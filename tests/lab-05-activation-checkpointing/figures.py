"""Figures of the page of Lab 05."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import measured_value
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_run
from rankzero.figures.shapes import arrow, box

BLOCKS = 9
POLICIES = {"none": "nothing", "blocks": "each block", "sqrt": "segments of 3", "selective": "attention alone"}


def draw_blocks(axes: Axes, segment: int) -> None:
    """Draws what each block holds over forward and backward; `segment` blocks come back at once, 0: all are kept."""
    style.blank(axes, 2 * BLOCKS, BLOCKS)
    axes.set_aspect("auto")
    for block in range(BLOCKS):
        backward = 2 * BLOCKS - 1 - block  # the column in which backward is at this block
        first = block - block % segment if segment else block  # the first block of its segment
        again = 2 * BLOCKS - min(first + segment, BLOCKS) if segment else block  # its inside is there from here on
        box(axes, 0, block, 2 * BLOCKS, 1, color=style.PANEL, line=0)
        if segment and block == first:
            axes.plot([block, again], [block + 0.5] * 2, color=style.BLUE, linewidth=2.2, solid_capstyle="butt")
        box(axes, again, block + 0.08, backward + 1 - again, 0.84, color=style.ACTIVATIONS, line=0)
    axes.axvline(BLOCKS, color=style.MUTED, linewidth=0.8, linestyle=":")
    for x, text in ((BLOCKS / 2, "forward"), (1.5 * BLOCKS, "backward")):
        axes.text(x, BLOCKS + 0.3, text, ha="center", va="top", color=style.MUTED, fontsize=9)


@figure(
    "lab-05-blocks-over-a-step",
    caption="The memory of nine blocks over one step of this lab's model: forward, then backward. Without "
    "recomputation, every block keeps its activations until its backward, and the step peaks at "
    "[51.59 MiB](claim:lab-05-peak-by-policy). With recomputation, only the inputs of blocks or segments are kept that "
    "long.",
    description="Three grids, one row per block and time from left to right, forward and then backward. Without "
    "recomputation each row is filled from the block's forward to its backward: a triangle that is widest for block 1. "
    "With each block recomputed, a thin line for the input runs from forward to backward, where one cell is filled. "
    "With segments of three blocks there are three thin lines, and three rows are filled at a time.",
)
def blocks_over_a_step() -> Figure:
    peaks = measured_value("lab-05-peak-by-policy")
    drawing, panels = style.new_figure(2.6, columns=3)
    names = {"none": "no recomputation", "blocks": "each block", "sqrt": "segments of 3"}
    for axes, (policy, name), segment in zip(panels, names.items(), (0, 1, 3), strict=True):
        draw_blocks(axes, segment)
        axes.set_title(f"{name}\npeak {peaks[policy]:.2f} MiB")
        axes.text(-0.3, 0.5, "1", ha="right", va="center", color=style.MUTED, fontsize=9)
        axes.text(-0.3, BLOCKS - 0.5, "9", ha="right", va="center", color=style.MUTED, fontsize=9)
    panels[0].text(-0.9, BLOCKS / 2, "block", rotation=90, ha="right", va="center", color=style.MUTED, fontsize=9)
    panels[0].text(BLOCKS, 0.5, "activations", ha="center", va="center", color=style.PAPER, fontsize=9.5)
    panels[1].text(0.4, 7.5, "input only", ha="left", va="center", color=style.BLUE, fontsize=9)
    return drawing


@figure(
    "lab-05-policies",
    caption="Activations of the recorded run's model under each policy. `blocks` and `sqrt` take the same "
    "[1.33 times](claim:lab-05-flops-by-policy) the FLOPs, but `sqrt` peaks at "
    "[17.48 MiB](claim:lab-05-peak-by-policy), because it recomputes three blocks at a time.",
    description="Four horizontal bars of MiB at the fullest moment, split into what forward kept and what backward "
    "made again. none: 51.59, all kept. blocks: 2.55 kept and 4.78 made again. sqrt: 1.42 kept and 16.06 made again. "
    "selective: 24.59 kept and almost nothing made again. FLOPs are 1, 1.33, 1.33 and 1.14 times those of none.",
)
def policies() -> Figure:
    kept, peaks = measured_value("lab-05-kept-by-policy"), measured_value("lab-05-peak-by-policy")
    flops = {"none": 1.0} | measured_value("lab-05-flops-by-policy")
    drawing, axes = style.new_figure(2.7)
    for place, policy in enumerate(POLICIES):
        axes.barh(place, kept[policy], 0.62, color=style.ACTIVATIONS)
        axes.barh(place, peaks[policy] - kept[policy], 0.62, left=kept[policy], color=style.TEMPORARY)
        axes.text(peaks[policy] + 0.6, place, f"{peaks[policy]:.2f} MiB", va="center", fontweight="bold")
    axes.text(22, 1, "kept after forward", color=style.ACTIVATIONS, va="center")
    axes.text(33.5, 2, "made again in backward", color=style.TEMPORARY, va="center")
    labels = [f"{policy}: {words}\n{flops[policy]:.2f} × FLOPs" for policy, words in POLICIES.items()]
    axes.set_yticks(range(len(POLICIES)), labels)
    axes.set(ylim=(len(POLICIES) - 0.45, -0.55), xlim=(0, 90), xlabel="activations at the fullest moment (MiB)")
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "lab-05-numbers-for-tensors",
    caption="The exercise `checkpoint` for y = sin(cos(sin(x))). In the first run, `pack` replaces each tensor by a "
    "number. The first `unpack` in backward starts the second run, which computes all tensors again. Each `unpack` "
    "returns one of these tensors.",
    description="A diagram in three rows. Top: the first run, x through sin, cos, sin to y; pack turns each saved "
    "tensor into a number. Middle: autograd's graph keeps the numbers 0, 1 and 2. Bottom: the second run "
    "hands each saved tensor to remade, as 0, 1 and 2, and unpack(2) takes tensor 2 from there.",
)
def numbers_for_tensors() -> Figure:
    drawing, axes = style.new_figure(3.3)
    style.blank(axes, 36, 16.2)
    names, columns_ = ("sin", "cos", "sin"), (11, 18, 25)
    for top, label in ((0.4, "first run,\nin forward"), (13.6, "second run,\nin backward")):
        axes.text(0, top + 1.2, label, va="center", fontweight="bold")
        axes.text(7, top + 1.2, "x", va="center", ha="center")
        for left, name in zip(columns_, names, strict=True):
            box(axes, left, top, 4, 2.4, name, rounding=0.3)
            arrow(axes, (7.6 if left == 11 else left - 3, top + 1.2), (left, top + 1.2))
        arrow(axes, (29, top + 1.2), (31.4, top + 1.2))
    axes.text(32, 1.6, "y", va="center")
    for number, left in enumerate(columns_):
        arrow(axes, (left + 2, 2.8), (left + 2, 5), color=style.BLUE)
        box(axes, left + 1, 5, 2, 2, str(number), edge=style.BLUE, text_color=style.BLUE)
        box(axes, left, 9.6, 4, 2, f"tensor {number}", color=style.ACTIVATIONS, line=0)
        arrow(axes, (left + 2, 13.6), (left + 2, 11.6), color=style.ACTIVATIONS)
    axes.text(11.6, 3.9, "pack(tensor) → number", color=style.BLUE, va="center", ha="right", fontsize=9)
    axes.text(0, 6, "autograd's graph", va="center", fontweight="bold")
    axes.text(0, 10.6, "remade", va="center", fontweight="bold")
    axes.text(11.6, 12.7, "hooks of the second run", color=style.ACTIVATIONS, va="center", ha="right", fontsize=9)
    arrow(axes, (29, 10.6), (28.1, 6), color=style.ORANGE, bend=0.35)
    axes.text(31.2, 8.3, "unpack(2)\nreturns\ntensor 2", color=style.ORANGE, va="center", fontsize=9)
    return drawing


@figure(
    "lab-05-break-it",
    caption="Both bugs beside a healthy run. Left: with other masks in the second run, the gradient is "
    "[wrong](claim:lab-05-another-mask), but the two curves can hardly be told apart. Right: if no input requires a "
    "gradient, [no weight of a block](claim:lab-05-nobody-asks) gets a gradient, and the loss hardly changes.",
    description="Two plots of training loss over steps. Left, 60 steps with dropout 0.5: both lines fall from 4.54 "
    "nats per token, and the line with other masks ends at 3.27, slightly above the healthy line at 3.21. Right: the "
    "line of the healthy run falls from 4.5 to 3.6 in 50 steps, and the line without a gradient stays at 4.5.",
)
def break_it() -> Figure:
    drawing, panels = style.new_figure(2.9, columns=2, sharey=True)
    titles = ("Other masks, dropout 0.5", "No gradient, embeddings frozen")
    pairs = (
        (("same-mask", "same masks"), ("another-mask", "other masks")),
        (("first-run", "healthy run,\nnothing frozen"), ("nobody-asks", "no gradient")),
    )
    for axes, title, pair in zip(panels, titles, pairs, strict=True):
        for (name, label), color, above in zip(pair, (style.BLUE, style.ORANGE), (-1, 1), strict=True):
            steps, loss = zip(*[point for point in recorded_run("05", name).training if point[0] <= 60], strict=True)
            axes.plot(steps, loss, "o-", color=color)
            side = "bottom" if above > 0 else "top"
            axes.text(steps[-1] + 2, loss[-1], label, color=color, va=side)
        axes.set_xticks(range(0, 61, 20))
        axes.set(xlabel="step", title=title, ylim=(2.9, 4.85), xlim=(0, 90))
    panels[0].set_ylabel("training loss, nats per token")
    return drawing
