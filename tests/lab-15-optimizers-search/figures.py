"""Figures of the page of Lab 15."""

import re
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.recorded_runs import recorded_text
from rankzero.figures.shapes import arrow, box


@dataclass
class Row:
    """A line of the table that the starter prints."""

    number: int
    state: str
    tokens: int
    loss: float


def recorded_rows(name: str) -> list[Row]:
    """The trials of a recorded run."""
    row = r"^ +(\d+)  (complete|pruned) .* ([\d,]+) +([\d.]+|nan)$"
    rows = re.findall(row, recorded_text("15", name), re.MULTILINE)
    return [Row(int(number), state, int(tokens.replace(",", "")), float(loss)) for number, state, tokens, loss in rows]


@figure(
    "lab-15-search-loop",
    caption="One trial: the sampler draws settings from the results so far, the trial trains and reports its "
    "validation loss eight times, and the pruner compares each report with the complete trials. The file study.db "
    "holds every result, so that another process, or a later run, can continue the search.",
    description="Boxes from left to right: sampler, trial, pruner, with arrows from settings to trial and from each "
    "report to the pruner, which answers go on or stop. Below them a wide box, study.db, with arrows up to sampler and "
    "pruner and an arrow down from trial.",
)
def search_loop() -> Figure:
    drawing, axes = style.new_figure(2.5)
    axes.set(xlim=(0, 30), ylim=(9.4, 0))
    axes.set_axis_off()
    for x, name, text, color in (
        (0.5, "sampler", "draws settings", style.BLUE),
        (11.5, "trial", "trains 32,768 tokens", style.GREEN),
        (22.5, "pruner", "median rule", style.ORANGE),
    ):
        box(axes, x, 1.2, 7, 2.8, color=style.PANEL, edge=color)
        axes.text(x + 3.5, 2.2, name, ha="center", va="center", weight="bold", color=style.WORDS.get(color, color))
        axes.text(x + 3.5, 3.2, text, ha="center", va="center", fontsize=9.5)
    box(axes, 0.5, 6.6, 29, 2.0, color=style.PANEL, edge=style.MUTED)
    axes.text(15, 7.6, "study.db: settings, seed, reports, state and process of each trial", ha="center", va="center")
    arrow(axes, (7.6, 2.6), (11.4, 2.6))
    axes.text(9.5, 2.2, "settings", ha="center", va="bottom", fontsize=9)
    arrow(axes, (18.6, 2.1), (22.4, 2.1))
    axes.text(20.5, 1.8, "report", ha="center", va="bottom", fontsize=9)
    arrow(axes, (22.4, 3.2), (18.6, 3.2))
    axes.text(20.5, 3.5, "go on / stop", ha="center", va="top", fontsize=9)
    arrow(axes, (4, 6.5), (4, 4.1))
    arrow(axes, (15, 4.1), (15, 6.5))
    arrow(axes, (26, 6.5), (26, 4.1))
    return drawing


def draw_trials(axes: Axes, rows: list[Row]) -> None:
    """Draws a bar per trial: its tokens, colored by its state, and its last loss."""
    for row in rows:
        color = style.BLUE if row.state == "complete" else style.GRAY
        axes.barh(row.number, row.tokens, 0.74, color=color)
    best = min((row for row in rows if row.state == "complete"), key=lambda row: row.loss)
    axes.barh(best.number, best.tokens, 0.74, color=style.ORANGE)
    color = style.WORDS[style.ORANGE]
    axes.text(best.tokens + 500, best.number, f"best {best.loss:.3f}", ha="left", va="center", color=color, fontsize=9)
    axes.invert_yaxis()
    axes.set_yticks(range(0, len(rows), 5))
    axes.set_xticks([0, 16_384, 32_768], ["0", "16,384", "32,768"])
    axes.set(xlabel="tokens", xlim=(0, 41_000))


@figure(
    "lab-15-first-run",
    caption="The recorded run: how far each of its 20 trials came. Blue trials are complete, gray trials were pruned, "
    "and the best trial is orange. The first trial has the default settings.",
    description="Twenty horizontal bars over tokens. The first bars are blue and reach 32,768 tokens; most later bars "
    "are gray and end between a quarter and five eighths of that. One orange bar is marked as the best.",
)
def first_run() -> Figure:
    drawing, axes = style.new_figure(3.2)
    draw_trials(axes, recorded_rows("first-run"))
    axes.set_ylabel("trial")
    axes.grid(axis="x")
    return drawing


@figure(
    "lab-15-break-it",
    caption="The same search with two units. Left: no trial is pruned in the first quarter of its tokens. Right: "
    "`n_warmup_steps=2` means two tokens, so every report is judged, and four trials are pruned at their first report.",
    description="Two panels of twenty horizontal bars. Left, gray bars end at a quarter of the tokens or later. "
    "Right, four of the gray bars end at an eighth.",
)
def break_it() -> Figure:
    drawing, both = style.new_figure(3.2, columns=2, sharey=True)
    for axes, name, title in zip(
        both, ("first-run", "wrong-unit"), ("a quarter of the tokens", "n_warmup_steps=2"), strict=True
    ):
        draw_trials(axes, recorded_rows(name))
        axes.set_title(title, fontsize=10)
        axes.grid(axis="x")
    both[0].invert_yaxis()
    both[0].set_ylabel("trial")
    return drawing


@figure(
    "lab-15-newton-schulz",
    caption="Ten of the 64 singular values of a matrix over the iterations of `newton_schulz`. Iteration 0 is the "
    "matrix divided by its norm. After 5 iterations all values are between [0.68 and "
    "1.13](claim:lab-15-newton-schulz), the gray band, and further iterations only move them inside this band.",
    description="Ten lines over 0 to 8 iterations. They begin between 0.03 and 0.27, spread while the larger ones pass "
    "1 first, and from iteration 4 on all lie in a gray band from 0.68 to 1.13, in which they still move.",
)
def newton_schulz_figure() -> Figure:
    drawing, axes = style.new_figure(2.9)
    axes.axhspan(0.68, 1.135, color=style.PANEL, linewidth=0)
    lines = measured_chart("lab-15-newton-schulz").lines
    for place, line in enumerate(lines.values()):
        count, value, _, _ = columns(line)
        first, last = place == 0, place == len(lines) - 1
        axes.plot(count, value, "o-", color=style.ORANGE if first else style.BLUE if last else style.GRAY, markersize=3)
    axes.text(1.05, 1.0, "largest", color=style.WORDS[style.ORANGE], ha="right", va="bottom")
    axes.text(2.1, 0.2, "smallest", color=style.BLUE, ha="left", va="top")
    axes.set(xlabel="iterations", ylabel="singular value", ylim=(0, 1.3), xlim=(-0.2, 8.2))
    axes.grid(axis="y")
    return drawing
