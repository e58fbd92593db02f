"""Charts: the measured points of a claim, drawn as lines with their spread or as bars."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from rankzero.claims.chart import Chart, Point
from rankzero.claims.measurements import read_measurements
from rankzero.errors import UserError
from rankzero.figures.style import INK, SERIES, label_line


def measured_value(slug: str) -> Any:
    """Returns the measured value of a claim: a number, or a dictionary of numbers. UserError if it was not measured."""
    return _measurement(slug).measured


def measured_chart(slug: str) -> Chart:
    """Returns the measured points of a claim whose function returns `Charted`. UserError if there are none."""
    if (chart := _measurement(slug).chart) is None:
        raise UserError(f"claim {slug} was measured without a chart: let its function return Charted(value, chart).")
    return Chart(**chart)


def _measurement(slug: str) -> Any:
    measurements = read_measurements()
    if slug not in measurements:
        raise UserError(f"claim {slug} was not measured: run `rankzero claims {slug}`, or draw the figure later.")
    return measurements[slug]


def draw_lines(axes: Axes, chart: Chart, *, colors: Mapping[str, str] | None = None) -> None:
    """Draws each line of the chart with the area between its lowest and highest values, and its name at its end."""
    if "x" in chart.log:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
    if "y" in chart.log:
        axes.set_yscale("log")
    for index, (name, line) in enumerate(chart.lines.items()):
        color = (colors or {}).get(name, SERIES[index % len(SERIES)])
        x, median, low, high = columns(line)
        axes.plot(x, median, "o-", color=color, markersize=3.5, linewidth=1.6)
        axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        if len(chart.lines) > 1:
            label_line(axes, x[-1], median[-1], name, color)
    axes.set(xlabel=chart.x, ylabel=chart.y)
    if "y" not in chart.log:
        axes.set_ylim(bottom=0)
    axes.grid()


def draw_bars(axes: Axes, chart: Chart) -> None:
    """Draws the points of the chart as horizontal bars with their spread and their numbers."""
    names = [str(point[0]) for point in next(iter(chart.lines.values()))]
    height = 0.8 / len(chart.lines)
    for index, (name, line) in enumerate(chart.lines.items()):
        _, median, low, high = columns([(0.0, *point[1:]) for point in line])
        places = [place + (index - (len(chart.lines) - 1) / 2) * height for place in range(len(line))]
        below = [middle - lowest for middle, lowest in zip(median, low, strict=True)]
        above = [highest - middle for middle, highest in zip(median, high, strict=True)]
        color = SERIES[index % len(SERIES)]
        axes.barh(places, median, height * 0.9, xerr=(below, above), color=color, label=name, ecolor=INK)
        for place, value, highest in zip(places, median, high, strict=True):
            digits = ",.0f" if value >= 1000 else ".3g"
            axes.annotate(f"  {value:{digits}}", (highest, place), va="center", fontsize=9)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel=chart.y, ylabel=chart.x)
    axes.margins(x=0.12)  # room for the numbers
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
    if len(chart.lines) > 1:
        axes.legend()


def columns(line: Sequence[Point]) -> tuple[list[float], ...]:
    """Returns the x, median, lowest and highest values of a line."""
    return tuple([float(point[column]) for point in line] for column in range(4))
