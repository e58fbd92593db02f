"""Source parts: the sections, regions and rows of an annotated Python file, which together hold every line.

A file consists of sections (a ruled comment begins one), a section of regions (a function, a class, the imports, the
constants), and a region of rows: words, and the lines of code from there to the next words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Words:
    """A docstring, a comment of one or more lines, or the comment at the end of a line: (number, source) per line."""

    kind: str  # "docstring", "comment" or "note"
    lines: list[tuple[int, str]]
    apart: bool = False  # not beside their line, because earlier words are there


@dataclass
class Row:
    """Lines of code, (number, source) each, and the words beside them. A comment moved there is not in its line."""

    words: list[Words] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Region:
    """A function, class or method by its name, "imports" or "constants"; other code has the name ""."""

    name: str
    rows: list[Row]
    loop: int | None = None  # line of the first loop

    @property
    def first(self) -> int:
        """The number of the region's first line."""
        row = self.rows[0]
        return min(number for number, _ in [*row.lines, *(line for words in row.words for line in words.lines)])

    @property
    def summary(self) -> str:
        """The first sentence of the region's docstring."""
        texts = (text_of(words) for row in self.rows for words in row.words if words.kind == "docstring")
        return re.split(r"(?<=[^.]\.)\s", next(texts, ""), maxsplit=1)[0]


@dataclass
class Section:
    """The regions under a ruled comment; a file's first section has no such comment, and `line` is None."""

    title: str
    line: int | None
    regions: list[Region]


@dataclass
class Annotated:
    """A whole file."""

    docstring: Words | None
    sections: list[Section]
    blank: list[int]  # the lines between the docstring and the first region

    @property
    def regions(self) -> Iterator[Region]:
        """The regions of all sections, in order."""
        return (region for section in self.sections for region in section.regions)


def text_of(words: Words) -> str:
    """Returns the words without quotes and number signs; an empty line separates paragraphs."""
    return "\n".join(text for _, text in text_lines(words)).strip()


def text_lines(words: Words) -> list[tuple[int, str]]:
    """Returns each line of the words, by number, without quotes, number sign and common indentation."""
    if words.kind != "docstring":
        return [(number, source.strip().removeprefix("#").strip()) for number, source in words.lines]
    indent = len(words.lines[0][1]) - len(words.lines[0][1].lstrip())
    texts = [source[indent:] if source[:indent].isspace() else source.strip() for _, source in words.lines]
    texts[0] = texts[0].lstrip("rf").removeprefix('"""')
    texts[-1] = texts[-1].rstrip().removesuffix('"""')
    return [(number, text) for (number, _), text in zip(words.lines, texts, strict=True)]
