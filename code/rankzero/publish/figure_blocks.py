"""Figure blocks in pages: a picture in the reader's theme, and below it the caption, both from the figure's source.

A pair of comments (`generated_blocks.py`) names the figure::

    <!-- figure: memory-over-a-step -->
    <!-- /figure -->
"""

import os
import re
from html import escape
from pathlib import Path

from rankzero.claims.registry import TABLE
from rankzero.curriculum import ROOT
from rankzero.figures import style
from rankzero.figures.figure import PageFigure
from rankzero.figures.registry import all_figures
from rankzero.publish.generated_blocks import fill_blocks

KIND = "figure"
LEAST = 2  # figures of a page
MERMAID = "```mermaid"
_WIDTH = 720  # pixels of a figure as wide as the text; GitHub shrinks a wider picture than its column


def fill(page: Path, text: str, root: Path) -> str:
    """Returns `text`, the text of `page`, with its figures filled. UserError for a figure that does not exist."""
    if f"<!-- {KIND}:" not in text or root != ROOT:
        return text
    return fill_blocks(page, text, KIND, lambda name, _: _block(_find(name), page.parent))


def missing_figures(text: str) -> str:
    """Returns which figure a page lacks, as the end of a sentence; empty if it has LEAST and one is near its top.

    Near the top is before the second section of the page's text; there a mermaid block will do.
    """
    fence = re.compile(r"^(```|~~~)(.*?)^\1", re.MULTILINE | re.DOTALL)
    text = fence.sub(lambda block: MERMAID if block[0].startswith(MERMAID) else "", text)
    drawn = re.findall(rf"^<!-- {KIND}: [\w-]+ -->$", text, re.MULTILINE)
    if len(drawn) < LEAST:
        return f"has {len(drawn)} of the {LEAST} figures that a page needs"
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    top = "".join(parts[:3])
    if f"<!-- {KIND}: " not in top and MERMAID not in top:
        return f"has no figure before its section '{parts[3]}'"
    return ""


def _find(name: str) -> PageFigure:
    figures = all_figures()
    if name not in figures:
        raise LookupError("no file in handbook/figures/ and no tests/lab-*/figures.py draws it")
    return figures[name]


def _width(picture: Path) -> int:
    """Returns the width of a picture in pixels: each figure has the same scale, so that its words have one size."""
    view = re.search(r'viewBox="0 0 ([\d.]+)', picture.read_text(encoding="utf-8")) if picture.exists() else None
    return round(_WIDTH * float(view[1]) / (72 * style.WIDTH)) if view else _WIDTH


def _block(figure: PageFigure, folder: Path) -> str:
    light, dark = (os.path.relpath(figure.file(theme), folder) for theme in ("light", "dark"))
    claims = os.path.relpath(TABLE, folder)
    caption = re.sub(r"\]\(claim:([\w-]+)\)", rf"]({claims}#\1)", figure.caption)
    return (
        "<picture>\n"
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">\n'
        f'<img src="{light}" width="{_width(figure.file("light"))}" alt="{escape(figure.description)}">\n'
        "</picture>\n\n"
        f"*{caption}*\n\n"
    )
