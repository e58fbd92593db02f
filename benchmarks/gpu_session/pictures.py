"""Pictures of a GPU session: the chart of a claim as lines with their spread, or as bars where x is a name."""

from pathlib import Path

from matplotlib.figure import Figure

from rankzero.claims.chart import Chart
from rankzero.figures.charts import draw_bars, draw_lines
from rankzero.figures.style import MUTED, settings


def draw(chart: Chart, caption: str = "") -> Figure:
    """Returns the chart as a figure; `caption` stands below it."""
    is_bars = any(isinstance(point[0], str) for line in chart.lines.values() for point in line)
    bars = sum(len(line) for line in chart.lines.values()) if is_bars else 0
    with settings():
        figure = Figure(figsize=(7, max(4.0, 1.5 + 0.17 * bars)), layout="constrained", facecolor="white")
        (draw_bars if is_bars else draw_lines)(figure.subplots(), chart)
        figure.suptitle(chart.title, x=0.01, ha="left", fontsize=11)
        if caption:
            figure.supxlabel(caption, fontsize=8, color=MUTED, wrap=True)
    return figure


def save(chart: Chart, file: Path, caption: str = "") -> None:
    """Writes the chart as a picture; the file's suffix names the format."""
    figure = draw(chart, caption)
    with settings():
        figure.savefig(file, dpi=150, facecolor="white")
