"""Diff pages: the diff between two starters, and diffs in color on all other pages."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from rankzero.curriculum import ROOT, Lab, all_labs
from rankzero.publish.site import page_names
from rankzero.publish.site.source import diff_lines, source_pages
from rankzero.publish.site.source.diff_lines import Line
from rankzero.publish.site.source.source_parser import spans
from rankzero.publish.site.source.syntax_highlighting import colored

AROUND = 4  # lines shown around a change
STEP = "train_step"  # a function of every starter that trains
PREAMBLE = ("docstring", "imports", "constants", "make_parser")


@dataclass(frozen=True)
class Part:
    """A function, class or other region of two starters, with all of its lines."""

    name: str
    lines: list[Line]

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of added and of removed lines."""
        signs = [line.sign for line in self.lines]
        return signs.count("+"), signs.count("-")


@cache
def compared_labs() -> list[tuple[Lab, Lab]]:
    """Returns the pairs of labs whose starters are compared: each lab that trains, with the previous and the first."""
    labs = [lab for lab in all_labs() if f"def {STEP}(" in lab.starter.read_text(encoding="utf-8")]
    return sorted({*itertools.pairwise(labs), *((labs[0], lab) for lab in labs[1:])}, key=page_of)


def page_of(labs: tuple[Lab, Lab]) -> str:
    """Returns the name of the page with the diff between the starters of two labs."""
    return f"diffs/lab-{labs[0].number}-to-lab-{labs[1].number}"


def place_of(labs: tuple[Lab, Lab]) -> str:
    """Returns the page with the diff between two starters, and the anchor at which it opens."""
    return f"{page_of(labs)}#{lesson_of(labs)}"


def lesson_of(labs: tuple[Lab, Lab]) -> str:
    """Returns the part at which the diff of two starters opens: the training step, or else the first changed part.

    The changed imports and options above it say less than what they are for.
    """
    changed = [part.name for part in parts(*(lab.starter for lab in labs)) if sum(part.counts)]
    return STEP if STEP in changed else next(name for name in changed if name not in PREAMBLE)


def pages_of(lab: Lab) -> list[tuple[str, str]]:
    """Returns title and place, PAGE#ANCHOR, of each diff to link from a lab: from earlier labs, then to the next."""
    since, to_next, labs = [], [], all_labs()
    for old, new in compared_labs():
        if new == lab:
            since.append((f"Changes since Lab {old.number}", place_of((old, new))))
        elif old == lab and labs.index(new) == labs.index(old) + 1:
            to_next.append((f"Changes in Lab {new.number}", place_of((old, new))))
    return since[::-1] + to_next


@cache
def parts(old: Path, new: Path) -> list[Part]:
    """Returns the diff of two files by region, in the new file's order; a removed region follows its predecessor."""
    before, after = (dict(_named(file)) for file in (old, new))
    order = list(after)
    for name, previous in zip(before, [None, *before], strict=False):
        if name not in after:
            order.insert(order.index(previous) + 1 if previous else 0, name)
    compared = []
    for name in order:
        (i, removed), (j, added) = before.get(name, (1, [])), after.get(name, (1, []))
        compared.append(Part(name.split("/")[0], diff_lines.changes(removed, added, (i, j))))
    return compared


def _named(file: Path) -> Iterator[tuple[str, tuple[int, list[str]]]]:
    """Yields each region as `name/n` (n counts regions of one name) with its first line's number and its lines."""
    lines = file.read_text(encoding="utf-8").splitlines()
    seen: list[str] = []
    for name, first, last in spans("\n".join(lines)):
        yield f"{name}/{seen.count(name)}", (first, lines[first - 1 : last])
        seen.append(name)


class ColorFences(SphinxPostTransform):
    """Shows the diffs inside pages in the same colors as on diff pages."""

    default_priority = 300

    def run(self, **_: Any) -> None:
        for node in self.document.findall(nodes.literal_block):
            if node.get("language") == "diff":
                lines = "".join(map(diff_lines.html, diff_lines.parse(node.astext())))
                block = f'<div class="highlight-diff notranslate"><div class="highlight"><pre>{lines}</pre></div></div>'
                node.replace_self(nodes.raw("", block, format="html"))


def _title(labs: tuple[Lab, Lab]) -> str:
    return f"From Lab {labs[0].number} to Lab {labs[1].number}"


def _links(uris: list[str], numbers: list[int | None]) -> str:
    """Returns a column per file with the line's number in that file, as a link to the line, or an empty column."""
    return "".join(
        f'<a class="linenos" href="{escape(uri)}#L{number}" aria-label="Line {number}, {version}">{number}</a>'
        if number
        else '<span class="nothing"></span>'
        for uri, number, version in zip(uris, numbers, ("before", "after"), strict=False)
    )


def _folded(part: Part) -> Iterator[tuple[bool, list[Line]]]:
    """Yields stretches of a part's lines, each with whether it is folded: long stretches far from any change are."""
    changed = [i for i, line in enumerate(part.lines) if line.sign != " "]
    near = {j for i in changed for j in range(i - AROUND, i + AROUND + 1)}
    for is_near, group in itertools.groupby(range(len(part.lines)), key=lambda i: i in near):
        lines = [part.lines[i] for i in group]
        yield not is_near and len(lines) > AROUND, lines


def _context(app: Sphinx, labs: tuple[Lab, Lab]) -> dict[str, Any]:
    page = page_of(labs)
    old, new = (lab.starter for lab in labs)
    old_html, new_html = (colored(file.read_text(encoding="utf-8"), file.name) for file in (old, new))
    uris = [app.builder.get_relative_uri(page, page_names.source_page(file)) for file in (old, new)]

    def row(line: Line) -> str:
        html = new_html[line.new - 1] if line.new else old_html[(line.old or 0) - 1]
        return diff_lines.html(line, html, _links(uris, [line.old, line.new]))

    compared = parts(old, new)
    related = {place for lab in labs for _, place in pages_of(lab)} - {place_of(labs)}
    return {
        "title": _title(labs),
        "sides": [(page_names.title_of(lab.page), page_names.name_of(lab.page), lab.starter) for lab in labs],
        "source_of": page_names.source_page,
        "counts": [sum(part.counts[side] for part in compared) for side in (0, 1)],
        "parts": [
            {
                "name": part.name,
                "counts": part.counts,
                "same": len(part.lines),
                "stretches": [(folded, len(lines), "".join(map(row, lines))) for folded, lines in _folded(part)],
            }
            for part in compared
        ],
        "others": [(_title(pair), place_of(pair)) for pair in compared_labs() if place_of(pair) in related],
    }


def _show(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    for labs in compared_labs():
        yield page_of(labs), _context(app, labs), "source/diff.html"
    for file in source_pages.shown(app.env):
        if file.suffix == ".diff":
            context = {**source_pages.head(app.env, file), "code": _changes(app, file)}
            yield page_names.source_page(file), context, "source/file.html"


def _changes(app: Sphinx, file: Path) -> str:
    """Returns a committed diff as HTML, with a link per line to the file that the diff changes, if it has a page."""
    lines = diff_lines.parse(file.read_text(encoding="utf-8"))
    changed = ROOT / lines[0].text.removeprefix("--- a/")
    uris = []
    if changed in source_pages.shown(app.env):
        uris = [app.builder.get_relative_uri(page_names.source_page(file), page_names.source_page(changed))]
    return "".join(
        diff_lines.html(line, before=_links(uris, [line.old]), anchor=f"L{number}")
        for number, line in enumerate(lines, start=1)
    )


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_post_transform(ColorFences)
    app.connect("html-collect-pages", _show)
    app.add_css_file("diff-pages.css")
