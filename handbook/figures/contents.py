"""Figure of the handbook's contents page: the labs, the chapters of each, and the questions that they answer."""

import re
import tomllib
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.curriculum import ROOT, all_labs
from rankzero.errors import UserError
from rankzero.figures import style
from rankzero.figures.figure import figure
from rankzero.figures.shapes import arrow, box

FITS, FAST, LEARNS = "Does it fit?", "Is it fast?", "Does it learn?"
QUESTIONS = {FITS: style.PURPLE, FAST: style.ORANGE, LEARNS: style.BLUE}
ANSWERS = {
    "hardware-and-roofline": (FAST,),
    "tensors-and-modules": (LEARNS,),
    "memory": (FITS,),
    "training-loop": (FITS, LEARNS),
    "forward-pass": (FITS,),
    "loss-functions": (LEARNS,),
    "backpropagation": (LEARNS,),
    "learning-rate-and-schedules": (LEARNS,),
    "precision": (FITS, FAST, LEARNS),
    "gradient-mechanics": (FITS, LEARNS),
    "batch-size-and-scaling": (FAST, LEARNS),
    "recomputation": (FITS, FAST),
    "model-families": (FITS, LEARNS),
    "profiling": (FAST,),
    "mfu": (FAST,),
    "engineering-tips": (FAST, LEARNS),
    "distributed-data-parallel": (FAST,),
    "several-nodes": (FAST,),
    "checkpoints-and-faults": (FAST,),
    "sharding-and-zero": (FITS, FAST),
    "planning": (FITS, FAST),
    "input-pipeline": (FAST, LEARNS),
    "compile-and-export": (FAST,),
    "search-and-tracking": (FAST, LEARNS),
    "stability-and-debugging": (FAST, LEARNS),
    "optimizers": (FITS, LEARNS),
    "activation-functions": (LEARNS,),
    "regularization": (LEARNS,),
}
ROW, GAP = 1.0, 0.28  # heights; a unit is 0.3 inches
SIZE = 13  # points: a phone shows the picture at half its size


@dataclass
class Station:
    """One lab of the map, with the file names of the chapters that its row of the table of topics names."""

    number: str
    title: str
    exists: bool
    chapters: list[str] = field(default_factory=list)

    @property
    def height(self) -> float:
        return ROW * len(self.chapters)


def stations() -> list[Station]:
    """Returns the labs that have a chapter, by number; the first lab of a chapter's row in the map of topics has it.

    UserError for a chapter whose questions are not in ANSWERS.
    """
    planned = tomllib.loads((ROOT / "labs" / "planned.toml").read_text(encoding="utf-8"))["lab"]
    labs = {table["number"]: Station(table["number"], table["title"], exists=False) for table in planned}
    labs |= {lab.number: Station(lab.number, lab.title, exists=not lab.draft) for lab in all_labs(drafts=True)}
    page = (ROOT / "handbook" / "README.md").read_text(encoding="utf-8")
    table = page.partition("\n## The map\n")[2].partition("\n## ")[0]
    row = r"^\|[^|]*\| \[[^]]*\]\(([\w-]+)\.md\) \|[^|\n]*?\b(\d\d)\b"
    for chapter, number in re.findall(row, table, re.MULTILINE):
        if chapter not in ANSWERS:
            raise UserError(f"handbook/figures/contents.py: say in ANSWERS which questions {chapter}.md answers.")
        labs[number].chapters.append(chapter)
    return [lab for _, lab in sorted(labs.items()) if lab.chapters]


def title_of(chapter: str) -> str:
    """Returns the title of a chapter: the first heading of its file."""
    return (ROOT / "handbook" / f"{chapter}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def grows_from_lab_02(station: Station) -> bool:
    """Returns whether the page of a lab shows its starter as changes since the starter of Lab 02."""
    pages = (ROOT / "labs").glob(f"lab-{station.number}-*.md")
    return any('since="code/lab-02-' in page.read_text(encoding="utf-8") for page in pages)


def draw_chapters(axes: Axes, station: Station, top: float) -> None:
    """Draws the chapters of a lab, one per row, with a dot for each question that it answers."""
    for row, chapter in enumerate(station.chapters):
        middle = top + (row + 0.5) * ROW
        axes.text(11.6, middle, title_of(chapter), va="center", fontsize=SIZE)
        for place, (question, color) in enumerate(QUESTIONS.items()):
            if question in ANSWERS[chapter]:
                axes.plot(21.6 + 0.85 * place, middle, "o", color=color, markersize=10)


@figure(
    "map-of-labs-and-chapters",
    caption="The labs from top to bottom, and beside each the chapters to read with it; dashed labs are planned. Dots "
    "say which of the three questions about a training run a chapter answers. Labs 03 to 08 start from Lab 02's "
    "program and add one idea each.",
    description="A column of boxes, one per lab, dashed for planned labs. Beside each box are the titles of its "
    "chapters: one to six per lab. Colored dots mark whether a chapter answers does it fit, is it fast, or does it "
    "learn. A line leads from Lab 02 to each of the labs 03 to 08.",
)
def map_of_labs_and_chapters() -> Figure:
    labs = stations()
    height = 1.5 + sum(lab.height + GAP for lab in labs)
    drawing, axes = style.new_figure(0.3 * height)
    style.blank(axes, 24, height)
    for place, (question, color) in enumerate(QUESTIONS.items()):
        axes.plot(0.9 + 8.2 * place, 0.55, "o", color=color, markersize=10)
        axes.text(1.5 + 8.2 * place, 0.55, question, va="center", color=color, fontsize=SIZE, fontweight="bold")
    top, rail = 1.5, 0.0
    for lab in labs:
        middle = top + lab.height / 2
        box(axes, 1, top, 10, lab.height, color=style.PANEL, edge=style.MUTED, rounding=0.2)
        if not lab.exists:
            axes.patches[-1].set(linestyle="--", facecolor="none")
        color = style.INK if lab.exists else style.MUTED
        axes.text(1.4, middle, lab.number, va="center", fontsize=SIZE, fontweight="bold", color=color)
        axes.text(2.6, middle, lab.title, va="center", fontsize=SIZE, color=color)
        if lab.number == "02":
            rail = middle
            axes.plot([0.35, 1], [middle, middle], color=style.GREEN, linewidth=2)
        if grows_from_lab_02(lab):
            axes.plot([0.35, 0.35], [rail, middle], color=style.GREEN, linewidth=2)
            arrow(axes, (0.35, middle), (1, middle), color=style.GREEN, line=2)
        draw_chapters(axes, lab, top)
        top += lab.height + GAP
    return drawing
