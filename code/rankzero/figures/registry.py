"""Registry of figures: all that the modules in handbook/figures/ and in the labs' tests define."""

import functools
import importlib

from rankzero.curriculum import ROOT, all_labs
from rankzero.errors import UserError
from rankzero.figures import content
from rankzero.figures.figure import PageFigure


@functools.cache
def all_figures() -> dict[str, PageFigure]:
    """Returns the figures by name, in the order of their modules. UserError for a name that two figures share."""
    figures: dict[str, PageFigure] = {}
    for name in _content_modules():
        module = importlib.import_module(f"{content.__name__}.{name}")
        for figure in (value for value in vars(module).values() if isinstance(value, PageFigure)):
            if figure.name in figures:
                raise UserError(f"figure {figure.name}: two figures have this name.")
            if not (ROOT / figure.page).exists():
                raise UserError(f"figure {figure.name}: there is no page {figure.page}.")
            figures[figure.name] = figure
    return figures


def _content_modules() -> list[str]:
    chapters = sorted(file.stem for file in (ROOT / "handbook" / "figures").glob("*.py"))
    return chapters + [f"{lab.slug}.figures" for lab in all_labs(drafts=True) if lab.figures.exists()]
