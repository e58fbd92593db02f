"""Figures of How to read this book."""

from matplotlib.figure import Figure

from rankzero.curriculum import ROOT
from rankzero.figures import style
from rankzero.figures.charts import measured_value
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box

SLUG = "eighty-gb-in-gib"


def source_of(slug: str) -> str:
    """Returns the source of this page's claim of that name: its decorator and its function."""
    text = (ROOT / "handbook" / "claims" / "how_to_read.py").read_text(encoding="utf-8")
    start = text.index(f'@claim(\n    "{slug}"')
    return text[start:].partition("\n\n\n")[0]


@figure(
    "way-of-a-number",
    caption="The number [74.5 GiB](claim:eighty-gb-in-gib) of this page and the function behind it. A test runs the "
    "function again and fails when its result leaves the tolerance of the text.",
    description="Three boxes, one below the other, joined by arrows. Top: a sentence of the page with a linked number, "
    "80 GB are 74.5 GiB. Middle: the source of the claim, with statement, expected value, tolerance, unit, and the "
    "function that makes a tensor and divides its bytes. Bottom: the measured value, 74.5058 GiB, which holds.",
)
def way_of_a_number() -> Figure:
    measured = measured_value(SLUG)
    drawing, axes = style.new_figure(4.3)
    style.blank(axes, 100, 60)
    axes.set_aspect("auto")
    box(axes, 0, 1, 62, 9, edge=style.BLUE, line=1.2)
    axes.text(30.4, 5.5, "80·10⁹ bytes are", va="center", ha="right")
    axes.text(31.6, 5.5, "74.5 GiB", va="center", color=style.BLUE, fontweight="bold")
    axes.text(65, 5.5, "a sentence of the page", va="center", color=style.MUTED)
    arrow(axes, (31, 10.4), (31, 16.6), color=style.BLUE)
    axes.text(33, 13.5, "the link names the claim", va="center", color=style.BLUE, fontsize=9)
    box(axes, 0, 17, 100, 28)
    axes.text(2, 31, source_of(SLUG), va="center", family="DejaVu Sans Mono", fontsize=8.5, linespacing=1.35)
    axes.text(98, 20.5, "the claim", ha="right", va="center", color=style.MUTED)
    arrow(axes, (31, 45.4), (31, 51.6), color=style.GREEN)
    axes.text(
        33, 48.5, f"rankzero claims {SLUG}", va="center", color=style.GREEN, family="DejaVu Sans Mono", fontsize=8.5
    )
    box(axes, 0, 52, 62, 7, f"measured {measured:.4f} GiB: within 0.05 of 74.5, holds", edge=style.GREEN, line=1.2)
    axes.text(65, 55.5, "a row of the table of claims", va="center", color=style.MUTED)
    return drawing


@figure(
    "decimal-and-binary-units",
    caption="What a program shows when it counts in powers of 1024 and prints the name of the power of 1000: the "
    "larger the unit, the larger the gap. For GB and GiB it is [74.5 of 80](claim:eighty-gb-in-gib).",
    description="Four horizontal bars, each as long as 1000 over 1024 to a power: 80 KB are 78.1 KiB, 80 MB are 76.3 "
    "MiB, 80 GB are 74.5 GiB, 80 TB are 72.8 TiB; the missing ends, up to 80, are dashed.",
)
def decimal_and_binary_units() -> Figure:
    drawing, axes = style.new_figure(2.2)
    for place, unit in enumerate("KMGT"):
        value = 80 * (1000 / 1024) ** (place + 1)
        axes.barh(place, value, 0.62, color=style.BLUE)
        axes.barh(
            place, 80 - value, 0.62, left=value, facecolor="none", edgecolor=style.ORANGE, linestyle="--", linewidth=1
        )
        axes.text(value - 1, place, f"{value:.1f} {unit}iB", va="center", ha="right", color=style.PAPER, weight="bold")
        axes.text(81, place, f"−{100 - value / 0.8:.1f} %", va="center", color=style.ORANGE)
    axes.set_yticks(range(4), [f"80 {unit}B" for unit in "KMGT"])
    axes.set(ylim=(3.5, -0.5), xlim=(0, 89), xticks=range(0, 81, 20), xlabel="number that the program prints")
    axes.tick_params(axis="y", length=0)
    return drawing
