"""Annotated source: a page with a starter's comments as prose beside the code that they describe."""

import itertools
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
    """Returns the parts of an annotated file."""
    return source_parser.take_apart(file.read_text(encoding="utf-8"))


def has_anchor(file: Path, name: str, line: int) -> bool:
    """Returns whether `name` is an anchor at `line` of the page that shows `file`: a function, class or method."""
    regions = parts(file).regions if file in source_pages.annotated() else ()
    return (name, line) in ((region.name, region.first) for region in regions)


def words_html(words: source_parts.Words) -> str:
    """Returns words as HTML: paragraphs and commands, with an anchor for each line of the source."""
    lines = source_parts.text_lines(words)
    runs = itertools.groupby(lines, key=lambda line: bool(line[1].strip()))
    blocks = [_block(list(run), words.kind, words.apart) for has_text, run in runs if has_text]
    empty = [f'<span id="L{number}"></span>' for number, text in lines if not text.strip()]
    return "".join([*blocks, *empty])


def _block(lines: list[tuple[int, str]], kind: str, apart: bool) -> str:
    def anchored(number: int, html: str) -> str:
        # The anchor of a note's line is in the code.
        return html if kind == "note" else f'<span class="said" id="L{number}">{html}</span>'

    if kind == "docstring" and all(COMMAND.match(text) for _, text in lines):
        html = "\n".join(anchored(number, escape(text.removeprefix("    "))) for number, text in lines)
        return f'<pre class="commands" tabindex="0">{html}</pre>'
    line = lines[0][0] if kind == "note" else lines[-1][0] + 1
    ref = f'<a class="ref" href="#L{line}" aria-label="Line {line}">{line}</a> ' if apart else ""
    return f'<p class="{kind}">{ref}' + " ".join(anchored(number, prose(text)) for number, text in lines) + "</p>"


def _code(file: Path) -> dict[int, str]:
    """Returns each line's HTML by its number, without the comments and docstrings that stand beside the code."""
    code = {number: source for region in parts(file).regions for row in region.rows for number, source in row.lines}
    text = "\n".join(code.get(number, "") for number in range(1, max(code) + 1))
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
            ("".join(map(words_html, row.words)), numbered((n, html[n]) for n in lines))
            for row, lines in zip(region.rows, numbers, strict=True)
        ],
        "after": after,  # the empty lines at the region's end, which are not shown
    }


def _context(lab: Lab, file: Path, having_pages: set[Path]) -> dict[str, Any]:
    annotated, html, labs = parts(file), _code(file), all_labs()
    index = labs.index(lab)
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
        "others": [(other.name, page_names.source_page(other)) for other in source_pages.scripts(lab) if other != file],
        "before": labs[index - 1] if index and is_starter else None,
        "after": labs[index + 1] if index + 1 < len(labs) and is_starter else None,
        "page_of": lambda lab: page_names.source_page(lab.starter),
        "diffs": diff_pages.pages_of(lab) if is_starter else [],
        "lead": words_html(annotated.docstring) if annotated.docstring else "",
        "blank": annotated.blank,
        "sections": [
            {
                "title": section.title[:1].upper() + section.title[1:],
                "anchor": section.title.lower().replace(" ", "-"),
                "line": section.line,
                "regions": [_region(region, html) for region in section.regions],
            }
            for section in annotated.sections
        ],
    }


def _show(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    having_pages = set(source_pages.shown(app.env))
    for file, lab in source_pages.annotated().items():
        yield page_names.source_page(file), _context(lab, file, having_pages), "source/annotated.html"


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("html-collect-pages", _show)
    app.add_css_file("annotated-source.css")
