"""Figures of the chapter on tensors and modules."""

from collections.abc import Collection

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box, cells

POSITIONS, WIDTH = 5, 3  # of the drawn sequence: T and D


def draw_sequence(
    axes: Axes, x: float, y: float, rows: int, columns_: int, colored: Collection[int], color: str
) -> None:
    """Draws a batch of three sequences, the front one as rows of cells; `colored` are its colored rows."""
    for behind in (0.7, 0.35):
        box(axes, x + behind, y - behind, columns_, rows, color=style.PAPER)
    for row in range(rows):
        shade = color if row in colored else style.PANEL
        cells(axes, x, y + row, 1.0, [shade] * columns_)


@figure(
    "shapes-of-a-batch",
    caption="Inputs (blue) that one position of the output (orange) depends on, for three operations. Each grid is a "
    "sequence of T positions (rows) with D numbers per position (columns); the other sequences of the batch lie behind "
    "it. In a linear layer, an output depends on its own position; in causal attention, on [its own and all earlier "
    "positions](claim:tensors-positions-that-change); in a mean over T, on all positions.",
    description="Three pairs of stacked grids of five rows. Linear: row 3 of the input is blue, row 3 of a wider "
    "output is orange. Causal attention: rows 0 to 3 of the input are blue, row 3 of an output of the same shape is "
    "orange. Mean over T: all five rows are blue, the output is one orange row.",
)
def shapes_of_a_batch() -> Figure:
    drawing, axes = style.new_figure(2.75)
    axes.set(xlim=(-0.8, 38.6), ylim=(8.2, -2.6))
    axes.set_axis_off()
    panels = (
        ("linear layer", "[B, T, D] → [B, T, 2D]", {3}, POSITIONS, 2 * WIDTH),
        ("causal attention", "[B, T, D] → [B, T, D]", set(range(4)), POSITIONS, WIDTH),
        ("mean over T", "[B, T, D] → [B, D]", set(range(POSITIONS)), 1, WIDTH),
    )
    left = 0.0
    for title, shapes, reads, rows, width in panels:
        draw_sequence(axes, left, 0, POSITIONS, WIDTH, reads, style.BLUE)
        arrow(axes, (left + WIDTH + 1.0, 3.5), (left + WIDTH + 2.4, 3.5))
        top, written = (0.0, {3}) if rows == POSITIONS else (3.0, {0})
        draw_sequence(axes, left + WIDTH + 2.8, top, rows, width, written, style.ORANGE)
        axes.text(left, -1.4, title, weight="bold", va="bottom")
        axes.text(left, 5.6, shapes, va="top", fontsize=9.5)
        left += 2 * WIDTH + (width - WIDTH) + 6.6
    axes.text(-0.3, 2.5, "T", ha="right", va="center", color=style.MUTED)
    axes.text(
        0, 7.9, "each column of cells is one of D numbers; each row is one position", color=style.MUTED, fontsize=9
    )
    return drawing


@figure(
    "one-storage-three-tensors",
    caption="One storage of six numbers and three tensors that describe it. Transposing exchanges the strides; slicing "
    "moves the offset. [No number is copied](claim:tensors-views-copy-nothing).",
    description="A row of six cells with the numbers 0 to 5 is the storage. Below it: x, two rows of three, strides 3 "
    "and 1; x.T, three rows of two, strides 1 and 3; x[:, 1:], two rows of two, strides 3 and 1, offset 1. Equal "
    "numbers have equal colors.",
)
def one_storage_three_tensors() -> Figure:
    drawing, axes = style.new_figure(3.0)
    axes.set(xlim=(-0.2, 16.2), ylim=(6.9, -0.9))
    axes.set_axis_off()
    colors = [style.SKY, style.SKY, style.SKY, style.AMBER, style.AMBER, style.AMBER]
    axes.text(0, -0.15, "storage", weight="bold", va="bottom")
    cells(axes, 0, 0, 1.0, colors, texts=[str(number) for number in range(6)])
    tensors = (
        ("x", "shape (2, 3)\nstrides (3, 1), offset 0", [[0, 1, 2], [3, 4, 5]]),
        ("x.T", "shape (3, 2)\nstrides (1, 3), offset 0", [[0, 3], [1, 4], [2, 5]]),
        ("x[:, 1:]", "shape (2, 2)\nstrides (3, 1), offset 1", [[1, 2], [4, 5]]),
    )
    for number, (name, description, rows) in enumerate(tensors):
        left = 5.6 * number
        axes.text(left, 2.0, name, weight="bold", va="bottom", family="DejaVu Sans Mono")
        for place, row in enumerate(rows):
            texts = [str(value) for value in row]
            cells(axes, left, 2.15 + place, 1.0, [colors[v] for v in row], texts=texts)
        axes.text(left, 5.4, description, va="top", fontsize=9.5)
    return drawing


@figure(
    "broadcast-bug",
    caption="Predictions [N, 1] minus targets [N] give N × N differences (left); only the diagonal was meant. Measured "
    "on the right: the wrong loss falls to [the variance of the targets](claim:tensors-broadcast-bug) and stays there.",
    description="Left: a grid of three by three differences p minus y, its diagonal colored. Right: loss over 60 "
    "steps. With targets of shape N by 1 it falls from 5 to nearly 0. With targets of shape N it levels off at the "
    "dotted line, the variance of the targets, at 4.7.",
)
def broadcast_bug() -> Figure:
    drawing, (left, right) = style.new_figure(2.9, columns=2, width_ratios=(0.8, 1.2))
    left.set(xlim=(-0.2, 3.2), ylim=(3.6, -0.6))
    left.set_aspect("equal")
    left.set_axis_off()
    for row in range(3):
        cells(left, 0, row, 1.0, [style.SKY if row == column else style.PANEL for column in range(3)])
        for column in range(3):
            color = style.text_on(style.SKY) if row == column else style.MUTED
            left.text(column + 0.5, row + 0.5, f"p{row}−y{column}", ha="center", va="center", fontsize=9, color=color)
    left.text(1.5, -0.15, "[3, 1] − [3]: 9 differences", ha="center", va="bottom", fontsize=9.5)
    colors = {"targets [N]": style.ORANGE, "targets [N, 1]": style.BLUE, "variance of the targets": style.GRAY}
    for name, line in measured_chart("tensors-broadcast-bug").lines.items():
        steps, losses, *_ = columns(line)
        right.plot(steps, losses, color=colors[name], linestyle=":" if name.startswith("variance") else "-")
        right.text(
            59, losses[-1] + (0.25 if name != "variance of the targets" else -0.7), name, color=colors[name], ha="right"
        )
    right.set(xlabel="step", ylabel="loss", ylim=(0, None), xlim=(0, 60))
    return drawing
