"""Annotated source: a page with a starter's comments as prose beside the code that they describe."""

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from rankzero.curriculum import Lab, all_labs
from rankzero.publish.site import page_names
from rankzero.publish.site.source import diff_pages, source_pages, source_parser, source_parts
from rankzero.publish.site.source.docstring_html import prose
from rankzero.publish.site.source.syntax_highlighting import colored, numbered

COMMAND = re.compile(r"\s{4}|python |torchrun ")


@cache
def parts(file: Path) -> source_parts.Annotated:
    """An annotated file, taken apart."""
    return source_parser.take_apart(file.read_text(encoding="utf-8"))


def anchor(file: Path, name: str) -> str:
    """The anchor of a function, class or method on the page that shows `file`, or "" where it has none."""
    names = {region.name for region in parts(file).regions} if file in source_pages.annotated() else set()
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name


def first_line(file: Path, name: str) -> int:
    """The line that a region of an annotated file begins with."""
    return next(region.first for region in parts(file).regions if region.name == name)


def said(words: source_parts.Words) -> str:
    """Words as HTML: paragraphs and commands, with an anchor for each line of the source."""
    blocks: list[list[tuple[int, str]]] = [[]]
    empty = []
    for number, text in source_parts.spoken(words):
        if text.strip():
            blocks[-1].append((number, text))
        else:
            empty.append(f'<span id="L{number}"></span>')
            blocks.append([])
    return "".join(_block(block, words.kind, words.apart) for block in blocks if block) + "".join(empty)


def _block(lines: list[tuple[int, str]], kind: str, apart: bool) -> str:
    def one(number: int, html: str) -> str:
        # A note's line has its anchor where its code is.
        return html if kind == "note" else f'<span class="said" id="L{number}">{html}</span>'

    if kind == "docstring" and all(COMMAND.match(text) for _, text in lines):
        html = "\n".join(one(number, escape(text.removeprefix("    "))) for number, text in lines)
        return f'<pre class="commands" tabindex="0">{html}</pre>'
    line = lines[0][0] if kind == "note" else lines[-1][0] + 1
    ref = f'<a class="ref" href="#L{line}" aria-label="Line {line}">{line}</a> ' if apart else ""
    return f'<p class="{kind}">{ref}' + " ".join(one(number, prose(text)) for number, text in lines) + "</p>"


def _code(file: Path) -> dict[int, str]:
    """Each line's HTML, without what is said beside it."""
    shown = {number: source for region in parts(file).regions for row in region.rows for number, source in row.lines}
    text = "\n".join(shown.get(number, "") for number in range(1, max(shown) + 1))
    return dict(enumerate(colored(text, file.name), start=1))


def _region(region: source_parts.Region, html: dict[int, str]) -> dict[str, Any]:
    if region.loop:
        html[region.loop] = f'<span id="{region.name}-loop"></span>{html[region.loop]}'
    numbers = [[number for number, _ in row.lines] for row in region.rows]
    after: list[int] = []
    while numbers[-1] and not html[numbers[-1][-1]]:
        after.insert(0, numbers[-1].pop())
    return {
        "name": region.name,
        "depth": region.name.count("."),
        "summary": prose(region.summary),
        "rows": [
            ("".join(map(said, row.words)), numbered((n, html[n]) for n in lines))
            for row, lines in zip(region.rows, numbers, strict=True)
        ],
        "after": after,  # empty lines before what follows: nothing to see
    }


def _context(lab: Lab, file: Path, having_pages: set[Path]) -> dict[str, Any]:
    whole, html, labs = parts(file), _code(file), all_labs()
    at = labs.index(lab)
    is_starter = file == lab.starter
    return {
        "title": file.name,
        "file": file,
        "crumbs": source_pages.crumbs(file, having_pages),
        "lab": lab,
        "lab_title": page_names.title_of(lab.page),
        "lab_page": page_names.name_of(lab.page),
        "reader_page": page_names.side_by_side_page(lab, lab.chapters[0]),
        "is_starter": is_starter,
        "others": [(one.name, page_names.source_page(one)) for one in source_pages.scripts(lab) if one != file],
        "before": labs[at - 1] if at and is_starter else None,
        "after": labs[at + 1] if at + 1 < len(labs) and is_starter else None,
        "page_of": lambda lab: page_names.source_page(lab.starter),
        "diffs": diff_pages.pages_of(lab) if is_starter else [],
        "lead": said(whole.docstring) if whole.docstring else "",
        "blank": whole.blank,
        "sections": [
            {
                "title": one.title[:1].upper() + one.title[1:],
                "anchor": one.title.lower().replace(" ", "-"),
                "line": one.line,
                "regions": [_region(region, html) for region in one.regions],
            }
            for one in whole.sections
        ],
    }


def _show(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    having_pages = set(source_pages.shown(app.env))
    for file, lab in source_pages.annotated().items():
        yield page_names.source_page(file), _context(lab, file, having_pages), "source/annotated.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.connect("html-collect-pages", _show)
    app.add_css_file("annotated-source.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
