"""Line tables: links from the code in a lab page's line-by-line table to the lines of the source.

The first column of that table quotes code, sometimes shortened: `...` stands for any text. The search for a quote goes
through the lines that the page shows, then the lab's starter, then the other files of the page's excerpts, and last the
functions that the cell names. It searches for the quote, and then in the same order for the name that the quote calls.
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
from rankzero.publish.excerpts import Place, locate
from rankzero.publish.site import page_names
from rankzero.publish.site.markdown import excerpt_captions
from rankzero.publish.site.source import source_pages

TITLE = "Line-by-line Explanation"
LIBRARY = ROOT / "code" / "rankzero"


def find(quotes: list[str], shown: list[Place], lab: Lab) -> Iterator[tuple[str, Path, int]]:
    """Yields each quote of a cell that is found, with its file and line; `shown` are the places that the page shows."""
    first = next(_places(quotes[0], quotes[1:], shown, lab), None)
    if first is None:
        return
    yield quotes[0], *first
    file, line = first
    area = next((place for place in shown if place.file == file and place.first <= line <= place.last), _whole(file))
    for quote in quotes[1:]:
        if number := next((line for pattern in _patterns(quote) for line in _lines(pattern, area)), None):
            yield quote, file, number


def _places(quote: str, names: list[str], shown: list[Place], lab: Lab) -> Iterator[tuple[Path, int]]:
    whole_files = [_whole(file) for file in dict.fromkeys([lab.starter, *(place.file for place in shown)])]
    functions = [function for name in names if name.isidentifier() for function in _defined(name)]
    for pattern in _patterns(quote):
        for place in [*shown, *whole_files, *functions]:
            yield from ((place.file, line) for line in _lines(pattern, place))


def _patterns(quote: str) -> list[re.Pattern[str]]:
    """Returns the patterns to search for, best first: the quote, then the name that it calls, called or passed on."""
    called = re.match(r"[\w.]+(?=\(|$)", quote)
    by_name = [re.compile(rf"(?<!\w){re.escape(called[0])}{after}") for after in (r"\(", r"(?!\w)")] if called else []
    parts = (map(re.escape, part.split()) for part in re.split(r"\.\.\.|…", quote))
    before = r"(?<![\w.])" if quote[0].isalnum() else ""
    verbatim = re.compile(before + ".*?".join(map(r"\s+".join, parts)), re.DOTALL)
    return [*by_name, verbatim] if called and called[0] == quote else [verbatim, *by_name]


def _lines(pattern: re.Pattern[str], place: Place) -> Iterator[int]:
    """Yields the lines on which a match begins, except imports; a match may extend over three lines."""
    lines = _text(place.file).splitlines()[: place.last]
    for number in range(place.first, place.last + 1):
        line, three_lines = lines[number - 1], "\n".join(lines[number - 1 : number + 2])
        match = None if line.startswith(("import ", "from ")) else pattern.search(three_lines)
        if match and match.start() <= len(line):
            yield number


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _whole(file: Path) -> Place:
    return Place(file, None, 1, len(_text(file).splitlines()))


@cache
def _defined(name: str) -> list[Place]:
    """Returns the library's functions of that name."""
    files = [file for file in sorted(LIBRARY.rglob("*.py")) if re.search(rf"^def {name}\(", _text(file), re.MULTILINE)]
    return [locate(f"{file.relative_to(ROOT)}#{name}", ROOT) for file in files]


class LinkLines(SphinxTransform):
    """Adds the links to the table of every lab's page."""

    default_priority = 390  # before excerpt_captions puts a caption between an excerpt's comment and its code

    def apply(self, **_: Any) -> None:
        lab = next((lab for lab in all_labs() if page_names.name_of(lab.page) == self.env.docname), None)
        if lab is None:
            return
        shown = [place for place, _ in excerpt_captions.excerpts(self.document) if place.file.suffix == ".py"]
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
    """Yields the first cell of each row of the line-by-line table."""
    for section in document.findall(nodes.section):
        if section[0].astext() == TITLE:
            for body in section.findall(nodes.tbody):
                for row in body.findall(nodes.row):
                    yield row[0]


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_transform(LinkLines)
