"""Text lines: sentences, lists and code as lines of a terminal, each of which takes one row."""

import textwrap

from rich.cells import set_cell_size
from rich.text import Text

INDENT = 11  # of the sentences below a word of verdict
STEP = 4  # columns by which code is indented further


def paragraph(text: str, width: int, indent: int = 0, style: str = "") -> list[Text]:
    """Returns text wrapped to `width` columns; a line that begins with spaces is code, and is cut instead."""
    lines = []
    for part in text.expandtabs(STEP).splitlines():
        if part.startswith(" " * STEP):
            lines.append(cut(" " * indent + part, width, style or "dim"))
        else:
            wrapped = textwrap.wrap(part.strip(), width - indent, break_on_hyphens=False)
            lines += [Text(" " * indent + line, style=style) for line in wrapped]
    return lines


def verdict(word: str, text: str, width: int, style: str = "", dim: bool = False) -> list[Text]:
    """Returns `word`, a verdict, and beside it `text`, wrapped."""
    first, *rest = paragraph(text, width - INDENT) or [Text()]
    beginning = Text.assemble((f"  {word:<{INDENT - 2}}", style), (first.plain, "dim" if dim else ""))
    return [beginning, *(Text(" " * INDENT + line.plain) for line in rest)]


def cut(text: str, width: int, style: str = "") -> Text:
    """Returns one line, without what is beyond `width` columns."""
    line = Text(text, style=style, no_wrap=True)
    if line.cell_len > width:
        line = Text(f"{set_cell_size(text, width - 1)}…", style=style, no_wrap=True)
    return line
