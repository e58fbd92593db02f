"""Figures of the page of Lab 16."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.claims.chart import Point
from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box

PATIENT, HEALTHY = style.ORANGE, style.BLUE
SERIES = {  # of the complaint, where it is no loss
    **dict.fromkeys(("03", "04", "11", "14"), "validation"),
    "15": "memory",
    "16": "waiting",
    "21": "weights",
    "22": "seconds",
}
FAILS = {**dict.fromkeys(("17", "18", "19", "20"), "an error"), "23": "no end"}


@figure(
    "lab-16-diagnosis",
    caption="A diagnosis. Each look is chosen so that its result differs between the suspects that are left. A cure is "
    "right if the number that showed the complaint is the twin's, on another seed too.",
    description="Five boxes in a row, joined by arrows: complaint, a number beside the twin's; suspects, causes that "
    "fit; a look that tells them apart; cure, one line; proof, the same number on another seed. An arrow leads from "
    "the look back to the suspects, marked refuted, and one from the proof back to the suspects, marked still ill.",
)
def diagnosis() -> Figure:
    drawing, axes = style.new_figure(2.0)
    axes.set(xlim=(0, 40), ylim=(10.4, 0))
    axes.set_axis_off()
    steps = (
        ("complaint", "a number beside\nthe twin's"),
        ("suspects", "causes that\nmake it so"),
        ("look", "tells suspects\napart"),
        ("cure", "one line\nchanges"),
        ("proof", "the number,\nanother seed"),
    )
    for place, (name, text) in enumerate(steps):
        left = 0.1 + 8.3 * place
        box(axes, left, 3.0, 6.5, 4.4, edge=style.BLUE)
        axes.text(left + 3.25, 4.0, name, ha="center", va="center", weight="bold")
        axes.text(left + 3.25, 5.9, text, ha="center", va="center", fontsize=9)
        if place:
            arrow(axes, (left - 1.8, 5.2), (left, 5.2), color=style.BLUE)
    back = {"color": style.ORANGE, "dash": "--"}
    arrow(axes, (19.0, 2.9), (13.0, 2.9), bend=0.35, **back)
    axes.text(16.0, 1.0, "refuted", color=style.WORDS[style.ORANGE], ha="center", va="center", fontsize=9)
    arrow(axes, (36.6, 7.5), (11.6, 7.5), bend=-0.13, **back)
    axes.text(24.0, 9.9, "still ill", color=style.WORDS[style.ORANGE], ha="center", va="center", fontsize=9)
    return drawing


def draw_panel(axes: Axes, lines: dict[str, list[Point]], number: str) -> None:
    """Draws the series of one patient's complaint and of its twin's, a line for each rank, on its own scale."""
    for who, color, width in (("healthy", HEALTHY, 2.0), ("patient", PATIENT, 1.3)):
        for name, line in lines.items():
            if name.startswith(f"{number} {who}"):
                x, values, *_ = columns(line)
                if number == "15":  # a process's memory begins anywhere
                    values = [value - values[0] for value in values]
                if number == "22":  # most steps have no validation
                    x, values = x[3:], [sum(values[place - 3 : place + 1]) / 4 for place in range(3, len(values))]
                axes.plot(x, values, color=color, linewidth=width)
    axes.margins(0.06)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(number, fontsize=9.5, pad=3)
    axes.set_title(SERIES.get(number, "loss"), loc="right", fontsize=9, fontweight="normal", color=style.MUTED, pad=3)
    if number in FAILS:
        axes.text(
            0.97, 0.88, FAILS[number], transform=axes.transAxes, ha="right", va="center", fontsize=9,
            color=style.WORDS[PATIENT],
        )  # fmt: skip


@figure(
    "lab-16-ward",
    caption="The ward: each of the 24 patients (orange) beside its healthy twin (blue), by the series of its "
    "complaint over the steps, each panel on its own scale. 01 to 16 raise no error, 17 to 20 raise one at once, 21 "
    "to 24 run on two ranks and have a line for each; the seconds of 22 are means of four steps. Patient 18's twin "
    "trains on a device without numbers.",
    description="Twenty-four small plots in four rows of six. In the first eleven, the orange line mostly stays above "
    "the blue one. In 12, 13 and 14 the orange line falls far below the blue line. In 15 it climbs in equal steps, in "
    "16 it is high throughout. 17 to 20 have no orange line and the words: an error. 21 has two orange lines that "
    "stay apart, 22 one orange line far above the other, 23 the words: no end, and 24 one orange line where the blue "
    "lines are two.",
)
def ward() -> Figure:
    lines = {name: list(line) for name, line in measured_chart("lab-16-ward").lines.items()}
    drawing, panels = style.new_figure(5.2, 4, 6)
    for place, axes in enumerate(panels.flat, start=1):
        draw_panel(axes, lines, f"{place:02d}")
    return drawing


@figure(
    "lab-16-break-it",
    caption="Patient 07 and two healthy twins. The twin with a model of its own begins where the patient began. The "
    "twin that gets the patient's model begins at [2.05 instead of 2.31](claim:lab-16-one-model-for-both) and looks "
    "healthier than it is.",
    description="Three lines of loss over 60 steps. The patient's line falls from 2.3 to 2.1. The line of the twin "
    "with a new model begins at 2.3 and falls to 0.5. The dashed line of the twin with the patient's model begins at "
    "2.05 and falls below 0.5 about ten steps earlier.",
)
def break_it() -> Figure:
    drawing, axes = style.new_figure(2.9)
    lines = measured_chart("lab-16-one-model-for-both").lines
    for name, color, dash in (
        ("patient", PATIENT, "-"), ("new model", HEALTHY, "-"), ("used model", style.PURPLE, "--"),
    ):  # fmt: skip
        x, loss, *_ = columns(lines[name])
        axes.plot(x, loss, dash, color=color)
    axes.text(60, 2.2, "patient", color=style.WORDS[PATIENT], ha="right", va="bottom")
    axes.text(43, 1.5, "twin, new model", color=HEALTHY, va="center")
    axes.text(20, 0.95, "twin, used model", color=style.PURPLE, va="center", ha="right")
    axes.set(xlabel="step", ylabel="loss, nats", ylim=(0, 2.6), xlim=(0, 61))
    axes.grid(axis="y")
    return drawing
