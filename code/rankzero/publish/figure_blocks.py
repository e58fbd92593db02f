"""Figure blocks in pages: a picture in the reader's theme, and below it the caption, both from the figure's source.

A pair of comments (`generated_blocks.py`) names the figure::

    <!-- figure: memory-over-a-step -->
    <!-- /figure -->
"""

import os
import re
from html import escape
from pathlib import Path

from rankzero.claims.table import TABLE
from rankzero.curriculum import ROOT
from rankzero.figures.figure import PageFigure
from rankzero.figures.registry import all_figures
from rankzero.publish.generated_blocks import fill_blocks

KIND = "figure"
_WIDTH = 720  # pixels; GitHub shrinks a wider picture than its column


def fill(page: Path, text: str, root: Path) -> str:
    """Returns `text`, the text of `page`, with its figures filled. UserError for a figure that does not exist."""
    if f"<!-- {KIND}:" not in text or root != ROOT:
        return text
    return fill_blocks(page, text, KIND, lambda name, _: _block(_find(name), page.parent))


def _find(name: str) -> PageFigure:
    figures = all_figures()
    if name not in figures:
        raise LookupError("no file in handbook/figures/ and no tests/lab-*/figures.py draws it")
    return figures[name]


def _block(figure: PageFigure, folder: Path) -> str:
    light, dark = (os.path.relpath(figure.file(theme), folder) for theme in ("light", "dark"))
    claims = os.path.relpath(TABLE, folder)
    caption = re.sub(r"\]\(claim:([\w-]+)\)", rf"]({claims}#\1)", figure.caption)
    return (
        "<picture>\n"
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">\n'
        f'<img src="{light}" width="{_WIDTH}" alt="{escape(figure.description)}">\n'
        "</picture>\n\n"
        f"*{caption}*\n\n"
    )
