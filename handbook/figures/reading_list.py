"""Figures of the reading list."""

from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box


@figure(
    "reading-order",
    caption="Five shelves in reading order. The labs to do with each shelf stand below it.",
    description="Five boxes from left to right, joined by arrows: foundations with Labs 00, 02 and 14; learning with "
    "Labs 02 and 15; one device with Labs 01 and 03 to 06; many devices with Labs 07 to 09; large runs with Labs 09 to "
    "11.",
)
def reading_order() -> Figure:
    drawing, axes = style.new_figure(1.9)
    style.blank(axes, 25, 6.4)
    shelves = {
        "foundations": "Labs 00, 02, 14",
        "learning": "Labs 02, 15",
        "one device": "Labs 01, 03–06",
        "many devices": "Labs 07–09",
        "large runs": "Labs 09–11",
    }
    for index, (name, labs) in enumerate(shelves.items()):
        x = 0.1 + 5.05 * index
        box(axes, x, 1.2, 4.3, 2.4, f"{index + 1}\n{name}", color=style.BLUE)
        axes.text(x + 2.15, 4.6, labs, ha="center", va="center", fontsize=9)
        if index:
            arrow(axes, (x - 0.75, 2.4), (x, 2.4))
    return drawing


@figure(
    "kind-of-source",
    caption="The kind of source that answers a question. A paper says why, the documentation says how to call, the "
    "source code says what happens, an issue says what went wrong.",
    description="Four rows, each a question in a box with an arrow to a box with a kind of source. Why does it work: "
    "the paper. How is it called: the documentation. What does it really do: the source code. Why does it fail here: "
    "an issue, or your own measurement.",
)
def kind_of_source() -> Figure:
    drawing, axes = style.new_figure(2.5)
    style.blank(axes, 25, 8.6)
    rows = {
        "Why does it work?": "the paper, with the setting that it was tested in",
        "How is it called?": "the documentation of your version",
        "What does it really do?": "the source code, then a print",
        "Why does it fail here?": "an issue with the same message, then a measurement",
    }
    for row, (question, answer) in enumerate(rows.items()):
        y = 0.2 + 2.1 * row
        box(axes, 0.1, y, 7.6, 1.7, question, color=style.BLUE)
        arrow(axes, (7.7, y + 0.85), (9.6, y + 0.85))
        box(axes, 9.6, y, 15.2, 1.7, answer)
    return drawing
