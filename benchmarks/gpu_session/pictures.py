"""Drawing a chart of a claim: lines with their spread, labels at the lines' ends; bars where x is a name."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rankzero.claims.chart import Chart, Point

# Okabe and Ito's colors, which color-blind readers tell apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666")


def draw(chart: Chart, caption: str = "") -> Figure:
    """Returns the chart as a figure; `caption` stands below it."""
    is_bars = any(isinstance(point[0], str) for line in chart.lines.values() for point in line)
    bars = sum(len(line) for line in chart.lines.values()) if is_bars else 0
    figure = Figure(figsize=(7, max(4.0, 1.5 + 0.17 * bars)), layout="constrained")
    axes = figure.subplots()
    (_draw_bars if is_bars else _draw_lines)(axes, chart)
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    if caption:
        figure.supxlabel(caption, fontsize=8, color="#555555", wrap=True)
    return figure


def save(chart: Chart, file: Path, caption: str = "") -> None:
    """Writes the chart as a picture; the file's suffix names the format."""
    draw(chart, caption).savefig(file, dpi=150)


def _draw_lines(axes: Axes, chart: Chart) -> None:
    if "x" in chart.log:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
    if "y" in chart.log:
        axes.set_yscale("log")
    for color, (name, line) in zip(COLORS, chart.lines.items(), strict=False):
        x, median, low, high = _columns(line)
        axes.plot(x, median, "o-", color=color, markersize=3.5, linewidth=1.6)
        axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        if len(chart.lines) > 1:
            axes.annotate(
                name,
                (x[-1], median[-1]),
                xytext=(6, 0),
                textcoords="offset points",
                color=color,
                va="center",
                fontsize=9,
                annotation_clip=False,
            )
    axes.set(xlabel=chart.x, ylabel=chart.y)
    if "y" not in chart.log:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)


def _draw_bars(axes: Axes, chart: Chart) -> None:
    names = [str(point[0]) for point in next(iter(chart.lines.values()))]
    height = 0.8 / len(chart.lines)
    for index, (color, (name, line)) in enumerate(zip(COLORS, chart.lines.items(), strict=False)):
        _, median, low, high = _columns([(0.0, *point[1:]) for point in line])
        places = [place + (index - (len(chart.lines) - 1) / 2) * height for place in range(len(line))]
        below = [middle - lowest for middle, lowest in zip(median, low, strict=True)]
        above = [highest - middle for middle, highest in zip(median, high, strict=True)]
        axes.barh(places, median, height * 0.9, xerr=(below, above), color=color, label=name, ecolor="#333333")
        for place, value, highest in zip(places, median, high, strict=True):
            digits = ",.0f" if value >= 1000 else ".3g"
            axes.annotate(f"  {value:{digits}}", (highest, place), va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel=chart.y, ylabel=chart.x)
    axes.margins(x=0.12)  # room for the numbers
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
    if len(chart.lines) > 1:
        axes.legend(frameon=False, fontsize=8)


def _columns(line: Sequence[Point]) -> tuple[list[float], ...]:
    return tuple([float(point[column]) for point in line] for column in range(4))
