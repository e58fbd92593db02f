"""Style of the figures: colors with a meaning, sizes, and axes without clutter.

A figure uses these colors and no others, since the dark theme replaces each by a color of its own. Series colors are
Okabe and Ito's, which color-blind readers tell apart.
"""

from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, GRID, PANEL, PAPER = "#1f2328", "#59636e", "#d1d9e0", "#f0f3f6", "#ffffff"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#b0508c"
SKY, AMBER, GRAY = "#56b4e9", "#e69f00", "#818b98"
ON_BRIGHT = "#12171d"  # text on the colors that are bright in both themes
SERIES = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, GRAY)

# The same colors on a dark page.
DARK = {
    INK: "#e6edf3",
    MUTED: "#9aa4af",
    GRID: "#3d444d",
    PANEL: "#1c232c",
    PAPER: "#0d1117",
    BLUE: "#4ba3dd",
    ORANGE: "#f08a3c",
    GREEN: "#2fbf96",
    PURPLE: "#d685b8",
    SKY: "#7cc7f2",
    AMBER: "#f0b93a",
    GRAY: "#7d8793",
    ON_BRIGHT: "#0b0f14",
}

# Words in a series color: as letters on a light page, these colors have too little contrast, so words are darker there.
WORDS = {ORANGE: "#b54d00", GREEN: "#007a59", AMBER: "#8f5f00", SKY: "#1a75a8", GRAY: "#656d78"}
DARK |= {word: DARK[color] for color, word in WORDS.items()}

# Colors of what a training step holds in memory, on every page.
WEIGHTS, GRADIENTS, OPTIMIZER, ACTIVATIONS, TEMPORARY, COMMUNICATION = BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY

WIDTH = 7.2  # inches, 518 points: the width of a page's text
NARROW = 4.95  # inches, 356 points: a phone shows a drawing of this width without shrinking its words
SETTINGS: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so text has the same size on every machine
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
    "patch.linewidth": 0,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text
    "axes.prop_cycle": f"cycler('color', {list(SERIES)})",
}


def settings() -> Any:
    """Returns a context in which matplotlib draws in this style, whatever style the process has set before."""
    return style.context(SETTINGS, after_reset=True)


def text_on(area: str) -> str:
    """Returns the color of text that can be read on an area of this color, in both themes."""
    if area in (ORANGE, GREEN, SKY, AMBER, GRAY):
        return ON_BRIGHT
    return PAPER if area in (INK, MUTED, BLUE, PURPLE) else INK


def new_figure(
    height: float = 3.2, rows: int = 1, columns: int = 1, *, width: float = WIDTH, **options: Any
) -> tuple[Figure, Any]:
    """Returns a figure, `height` and `width` in inches, and its axes; `options` as in `subplots`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def blank(axes: Axes, width: float, height: float) -> None:
    """Makes axes a drawing board of `width` by `height` units, without ticks and frame; the origin is top left."""
    axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    axes.set_axis_off()


def label_line(axes: Axes, x: float, y: float, text: str, color: str, **options: Any) -> None:
    """Writes a line's name beside its point (x, y) in the line's color, which replaces a legend."""
    place: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
    axes.annotate(text, (x, y), color=color, fontsize=9.5, **(place | options))
