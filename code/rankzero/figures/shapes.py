"""Shapes of diagrams: boxes with text, cells in a row, arrows, braces."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from rankzero.figures.style import MUTED, PANEL, text_on


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str = "", **options: Any) -> None:
    """Draws a box with its top left corner at (x, y) and text in its middle.

    Options: `color` of the area, `edge`, `text_color`, `size` of the text in points, `alpha` of the area, `rounding`.
    """
    style = f"round,pad=0,rounding_size={options.get('rounding', 0)}" if options.get("rounding") else "square,pad=0"
    patch = FancyBboxPatch(
        (x, y), width, height, boxstyle=style, facecolor=options.get("color", PANEL),
        edgecolor=options.get("edge", MUTED), linewidth=options.get("line", 0.8), alpha=options.get("alpha"),
        hatch=options.get("hatch"), clip_on=False,
    )  # fmt: skip
    patch.set_in_layout(False)  # an edge on the border of the axes is drawn whole, and moves nothing
    axes.add_patch(patch)
    if text:
        axes.text(
            x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=options.get("size", 9.5),
            color=options.get("text_color", text_on(options.get("color", PANEL))),
            fontweight=options.get("weight", "normal"),
        )  # fmt: skip


def cells(axes: Axes, x: float, y: float, size: float, colors: Sequence[str], **options: Any) -> None:
    """Draws a row of square cells, one for each color; `texts` go into the cells."""
    for index, color in enumerate(colors):
        axes.add_patch(
            Rectangle((x + index * size, y), size, size, facecolor=color, edgecolor=options.get("edge", MUTED), lw=0.6)
        )
        if texts := options.get("texts"):
            axes.text(
                x + (index + 0.5) * size, y + size / 2, texts[index], ha="center", va="center",
                fontsize=options.get("size", 9), color=options.get("text_color", text_on(color)),
            )  # fmt: skip


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **options: Any) -> None:
    """Draws an arrow; `bend` curves it, `text` stands at its middle, above the arrow by `lift` units."""
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle=options.get("style", "-|>"), mutation_scale=options.get("head", 10),
            color=options.get("color", MUTED), linewidth=options.get("line", 1.3), shrinkA=0, shrinkB=0,
            connectionstyle=f"arc3,rad={options.get('bend', 0)}", linestyle=options.get("dash", "-"),
        )
    )  # fmt: skip
    if text := options.get("text"):
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        axes.text(
            x, y - options.get("lift", 0.15), text, ha="center", va="bottom", fontsize=options.get("size", 9),
            color=options.get("text_color", MUTED),
        )  # fmt: skip
