"""Page figure: a picture of a page, with its caption, its description and the function that draws it."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from rankzero.curriculum import ROOT
from rankzero.errors import UserError


@dataclass(frozen=True)
class PageFigure:
    """One picture. `draw` returns it in the light theme's colors (`style.py`); `themes.py` makes the other themes.

    `caption` is markdown that states the picture's finding; `[89.4 MB](claim:SLUG)` links to a claim.
    `description` says in words what a reader sees, for readers who cannot see the picture.
    """

    name: str
    page: str  # such as "handbook/memory.md"
    caption: str
    description: str
    draw: Callable[[], Figure]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise UserError(f"figure {self.name!r}: a name is lower-case words and numbers with hyphens between.")

    @property
    def source(self) -> Path:
        """Returns the file that holds the drawing function."""
        return Path(inspect.getfile(self.draw))

    def file(self, theme: str) -> Path:
        """Returns the SVG of a theme, "light" or "dark", in the folder `pictures` beside the page."""
        suffix = {"light": "", "dark": "-dark"}[theme]
        return (ROOT / self.page).parent / "pictures" / f"{self.name}{suffix}.svg"


def figure(name: str, *, caption: str, description: str) -> Callable[[Callable[[], Figure]], PageFigure]:
    """Makes a figure of the drawing function below it. The place of the function's file decides the page."""

    def make(draw: Callable[[], Figure]) -> PageFigure:
        return PageFigure(name, page_of(Path(inspect.getfile(draw))), caption, description, draw)

    return make


def page_of(file: Path) -> str:
    """Returns the page of handbook/figures/NAME.py or of tests/lab-NN-name/figures.py. UserError for another file."""
    match file.relative_to(ROOT).with_suffix("").parts:
        case ("handbook", "figures", "readme"):
            return "README.md"
        case ("handbook", "figures", "contents"):
            return "handbook/README.md"
        case ("handbook", "figures", chapter):
            return f"handbook/{chapter.replace('_', '-')}.md"
        case ("tests", lab, "figures"):
            return f"labs/{lab}.md"
    raise UserError(f"{file}: figures must be in handbook/figures/ or in tests/lab-NN-name/figures.py.")
