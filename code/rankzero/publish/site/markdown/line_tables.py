"""Line tables: links from the code in a lab page's line-by-line table to the lines of the source.

The first column of that table quotes code, sometimes shortened: `...` stands for anything. A quote is looked for first
in the lines that the page shows, then in the lab's starter, then in the other files of the page's excerpts, and at last
in the function that the cell names; first as it stands, then by the name that it calls.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from rankzero.curriculum import ROOT, Lab, all_labs
from rankzero.publish.excerpts import Place, place
from rankzero.publish.site import page_names
from rankzero.publish.site.markdown import excerpt_captions
from rankzero.publish.site.source import source_pages

TITLE = "Line-by-line Explanation"
LIBRARY = ROOT / "code" / "rankzero"


def find(quotes: list[str], shown: list[Place], lab: Lab) -> Iterator[tuple[str, Path, int]]:
    """The quotes of one cell that are found: each with its file and line. `shown` is what the page shows."""
    first = next(_places(quotes[0], quotes[1:], shown, lab), None)
    if first is None:
        return
    yield quotes[0], *first
    file, line = first
    near = next((one for one in shown if one.file == file and one.first <= line <= one.last), _whole(file))
    for quote in quotes[1:]:
        lines = (line for pattern in _patterns(quote) for line in _lines(pattern, near))
        if other := next(lines, None):
            yield quote, file, other


def _places(quote: str, names: list[str], shown: list[Place], lab: Lab) -> Iterator[tuple[Path, int]]:
    whole = [_whole(file) for file in dict.fromkeys([lab.starter, *(one.file for one in shown)])]
    named = [one for name in names if name.isidentifier() for one in _defined(name)]
    for pattern in _patterns(quote):
        for one in [*shown, *whole, *named]:
            yield from ((one.file, line) for line in _lines(pattern, one))


def _patterns(quote: str) -> list[re.Pattern[str]]:
    """What to look for, best first: the quote as it stands, then the name that it calls, called or handed on."""
    called = re.match(r"[\w.]+(?=\(|$)", quote)
    by_name = [re.compile(rf"(?<!\w){re.escape(called[0])}{after}") for after in (r"\(", r"(?!\w)")] if called else []
    parts = (map(re.escape, part.split()) for part in re.split(r"\.\.\.|…", quote))
    before = r"(?<![\w.])" if quote[0].isalnum() else ""
    whole = re.compile(before + ".*?".join(map(r"\s+".join, parts)), re.DOTALL)
    return [*by_name, whole] if called and called[0] == quote else [whole, *by_name]


def _lines(pattern: re.Pattern[str], where: Place) -> Iterator[int]:
    """The lines on which the pattern begins, but for imports; it may go on below, inside one statement."""
    lines = _text(where.file).splitlines()[: where.last]
    for number in range(where.first, where.last + 1):
        line, here = lines[number - 1], "\n".join(lines[number - 1 : number + 2])
        match = None if line.startswith(("import ", "from ")) else pattern.search(here)
        if match and match.start() <= len(line):
            yield number


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _whole(file: Path) -> Place:
    return Place(file, None, 1, len(_text(file).splitlines()))


@cache
def _defined(name: str) -> list[Place]:
    """The functions of that name in the library."""
    found = [file for file in sorted(LIBRARY.rglob("*.py")) if re.search(rf"^def {name}\(", _text(file), re.MULTILINE)]
    return [place(f"{file.relative_to(ROOT)}#{name}", ROOT) for file in found]


class LinkLines(SphinxTransform):
    """Makes the links, in every lab's page."""

    default_priority = 390  # before captions come between excerpts and what they say of themselves

    def apply(self, **_: Any) -> None:
        lab = next((lab for lab in all_labs() if page_names.name_of(lab.page) == self.env.docname), None)
        if lab is None:
            return
        shown = [
            found
            for found, _ in excerpt_captions.excerpts(self.document)
            if ROOT / "solutions" not in found.file.parents
        ]
        shown = [one for one in shown if one.file.suffix == ".py"]
        for cell in _cells(self.document):
            literals = list(cell.findall(nodes.literal))
            quotes = [literal.astext() for literal in literals]
            for quote, file, line in find(quotes, shown, lab) if quotes else ():
                literal = literals[quotes.index(quote)]
                uri = source_pages.link(self.env, self.env.docname, file, line)
                link = nodes.reference("", "", literal.deepcopy(), refuri=uri, internal=True)
                link["reftitle"] = f"line {line} of {file.name}"
                literal.replace_self(link)


def _cells(document: nodes.document) -> Iterator[nodes.entry]:
    """The first cell of each row of the table of lines."""
    for section in document.findall(nodes.section):
        if section[0].astext() == TITLE:
            for body in section.findall(nodes.tbody):
                for row in body.findall(nodes.row):
                    yield row[0]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.add_transform(LinkLines)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
