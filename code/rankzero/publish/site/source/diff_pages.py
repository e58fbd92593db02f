"""Diff pages: the difference between two starters, and diffs in color on all other pages."""

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
STEP = "train_step"  # what every starter that trains has


@dataclass(frozen=True)
class Part:
    """A function, class or other region of two starters, with all of its lines."""

    name: str
    lines: list[Line]

    @property
    def counts(self) -> tuple[int, int]:
        """How many lines were added, and how many removed."""
        signs = [line.sign for line in self.lines]
        return signs.count("+"), signs.count("-")


@cache
def ways() -> list[tuple[Lab, Lab]]:
    """The labs whose starters are compared: each that trains with the one before it, and with the first."""
    labs = [lab for lab in all_labs() if f"def {STEP}(" in lab.starter.read_text(encoding="utf-8")]
    return sorted({*itertools.pairwise(labs), *((labs[0], lab) for lab in labs[1:])}, key=page_of_way)


def page_of(old: Lab, new: Lab) -> str:
    """The name of the page that shows what changed between their starters."""
    return f"diffs/lab-{old.number}-to-lab-{new.number}"


def page_of_way(way: tuple[Lab, Lab]) -> str:
    """`page_of` its two."""
    return page_of(*way)


def pages_of(lab: Lab) -> list[tuple[str, str]]:
    """Title and page of each comparison to show with a lab: with earlier ones, then with the next."""
    since = [(f"Changes since Lab {old.number}", page_of(old, new)) for old, new in ways() if new == lab]
    labs = all_labs()
    after = [
        (f"Changes in Lab {new.number}", page_of(old, new))
        for old, new in ways()
        if old == lab and labs.index(new) == labs.index(old) + 1
    ]
    return since[::-1] + after


@cache
def parts(old: Path, new: Path) -> list[Part]:
    """Two files compared region by region, in the order of the new one; what is gone stands where it stood."""
    before, after = (dict(_named(file)) for file in (old, new))
    order = list(after)
    for name, previous in zip(before, [None, *before], strict=False):
        if name not in after:
            order.insert(order.index(previous) + 1 if previous else 0, name)
    found = []
    for name in order:
        (i, removed), (j, added) = before.get(name, (1, [])), after.get(name, (1, []))
        found.append(Part(name.split("/")[0], diff_lines.changes(removed, added, (i, j))))
    return found


def _named(file: Path) -> Iterator[tuple[str, tuple[int, list[str]]]]:
    """Each region's first line and lines by its name, with a number after it where a name comes again."""
    lines = file.read_text(encoding="utf-8").splitlines()
    seen: list[str] = []
    for name, first, last in spans("\n".join(lines)):
        yield f"{name}/{seen.count(name)}", (first, lines[first - 1 : last])
        seen.append(name)


class ColorFences(SphinxPostTransform):
    """Shows the diffs inside pages as those on pages of their own are shown."""

    default_priority = 300

    def run(self, **_: Any) -> None:
        for node in self.document.findall(nodes.literal_block):
            if node.get("language") == "diff":
                lines = "".join(map(diff_lines.html, diff_lines.parse(node.astext())))
                block = f'<div class="highlight-diff notranslate"><div class="highlight"><pre>{lines}</pre></div></div>'
                node.replace_self(nodes.raw("", block, format="html"))


def _title(old: Lab, new: Lab) -> str:
    return f"From Lab {old.number} to Lab {new.number}"


def _row(line: Line, html: list[list[str]], uris: list[str]) -> str:
    """A line with links to it in both files."""
    colored = html[1][line.new - 1] if line.new else html[0][(line.old or 0) - 1]
    return diff_lines.html(line, colored, _links(uris, [line.old, line.new]))


def _links(uris: list[str], numbers: list[int | None]) -> str:
    """A column for each file: the line's number in it, a link to that line, or nothing."""
    return "".join(
        f'<a class="linenos" href="{escape(uri)}#L{number}" aria-label="Line {number}, {when}">{number}</a>'
        if number
        else '<span class="nothing"></span>'
        for uri, number, when in zip(uris, numbers, ("before", "after"), strict=False)
    )


def _folded(part: Part) -> Iterator[tuple[bool, list[Line]]]:
    """Its lines in stretches, each with whether it is far from any change."""
    changed = [i for i, line in enumerate(part.lines) if line.sign != " "]
    near = {j for i in changed for j in range(i - AROUND, i + AROUND + 1)}
    for is_near, group in itertools.groupby(range(len(part.lines)), key=lambda i: i in near):
        lines = [part.lines[i] for i in group]
        yield not is_near and len(lines) > AROUND, lines


def _context(app: Sphinx, old: Lab, new: Lab) -> dict[str, Any]:
    page = page_of(old, new)
    sides = (old.starter, new.starter)
    html = [colored(file.read_text(encoding="utf-8"), file.name) for file in sides]
    uris = [app.builder.get_relative_uri(page, page_names.source_page(file)) for file in sides]

    def rows(lines: list[Line]) -> str:
        return "".join(_row(line, html, uris) for line in lines)

    compared = parts(*sides)
    near = {one for lab in (old, new) for _, one in pages_of(lab)}
    return {
        "title": _title(old, new),
        "sides": [(page_names.title_of(lab.page), page_names.name_of(lab.page), lab.starter) for lab in (old, new)],
        "source_of": page_names.source_page,
        "counts": [sum(part.counts[side] for part in compared) for side in (0, 1)],
        "parts": [
            {
                "name": part.name,
                "counts": part.counts,
                "same": len(part.lines),
                "stretches": [(folded, len(lines), rows(lines)) for folded, lines in _folded(part)],
            }
            for part in compared
        ],
        "others": [(_title(*way), page_of(*way)) for way in ways() if page_of(*way) in near - {page}],
    }


def _show(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    for old, new in ways():
        yield page_of(old, new), _context(app, old, new), "source/diff.html"
    for file in source_pages.shown(app.env):
        if file.suffix == ".diff":
            yield (
                page_names.source_page(file),
                {**source_pages.head(app.env, file), "code": _changes(app, file)},
                "source/file.html",
            )


def _changes(app: Sphinx, file: Path) -> str:
    """A committed diff, its lines with links to those of the file that it changes, if that has a page."""
    lines = diff_lines.parse(file.read_text(encoding="utf-8"))
    changed = ROOT / lines[0].text.removeprefix("--- a/")
    uris = []
    if changed in source_pages.shown(app.env):
        uris = [app.builder.get_relative_uri(page_names.source_page(file), page_names.source_page(changed))]
    return "".join(
        diff_lines.html(line, before=_links(uris, [line.old]), anchor=f"L{number}")
        for number, line in enumerate(lines, start=1)
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.add_post_transform(ColorFences)
    app.connect("html-collect-pages", _show)
    app.add_css_file("diff-pages.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
