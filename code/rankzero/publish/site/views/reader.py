"""The reader: a chapter and a lab in two panes, with what belongs to the lab one click away.

It is made of pages that were written before, so whatever other parts of the site do to a page, a pane shows.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from rankzero.curriculum import Lab, all_labs
from rankzero.publish.site.source import diff_pages as diffs
from rankzero.publish.site.source import source_pages as files
from rankzero.publish.site.views import site_map as pages
from rankzero.publish.site.views.side_by_side import Place, lead, take

CHAPTER, STARTER = "chapter--", "starter--"  # before the ids of a chapter and of a starter; a lab's stay as they are


def page_of(lab: Lab, chapter: Path) -> str:
    """The name of the page that shows the two."""
    return f"read/lab-{lab.number}-{chapter.stem}"


def _places(lab: Lab, here: str) -> dict[str, Place]:
    """Where the reader's page `here` shows what it shows, and where its links to the lab's other chapters lead."""
    return {
        f"{pages.name_of(lab.page)}.html": Place(f"{here}.html", "", "lab"),
        f"{files.page_of(lab.starter)}.html": Place(f"{here}.html", STARTER, "starter"),
        **{
            f"{pages.name_of(chapter)}.html": Place(f"{page_of(lab, chapter)}.html", CHAPTER, "chapter")
            for chapter in lab.chapters
        },
    }


def _context(lab: Lab, chapter: Path, body: Callable[[str, str], str]) -> dict[str, Any]:
    here = page_of(lab, chapter)
    sources = {
        "chapter": (pages.name_of(chapter), CHAPTER),
        "lab": (pages.name_of(lab.page), ""),
        "starter": (files.page_of(lab.starter), STARTER),
    }
    parts = {name: lead(body(*source), f"{here}.html", _places(lab, here)) for name, source in sources.items()}
    return {
        "title": f"{pages.title_of(chapter)}, beside Lab {lab.number}",
        "lab": lab,
        "chapter_title": pages.title_of(chapter),
        "chapters": [(pages.title_of(one), page_of(lab, one)) for one in lab.chapters],
        "elsewhere": [
            *(("Diff", page) for _, page in diffs.pages_of(lab)[:1]),  # with the starter before, or with the next
            ("Notebook", pages.name_of(lab.notebook)),
        ],
        "parts": parts,
        "sources": {name: page for name, (page, _) in sources.items()},
        "body": "".join(parts.values()),  # for whoever looks there for what a page needs
    }


def _compose(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    @cache
    def body(page: str, prefix: str) -> str:
        return take(Path(app.builder.get_output_path(page)).read_text(encoding="utf-8"), page, prefix)

    for lab in all_labs():
        for chapter in lab.chapters:
            yield page_of(lab, chapter), _context(lab, chapter, body), "reader.html"


def _invite(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Says under a lab's title what belongs to it, and under a chapter's which labs can be read beside it."""
    labs = all_labs()
    to = context["pathto"]
    if lab := next((lab for lab in labs if pages.name_of(lab.page) == pagename), None):
        chapters = [(pages.title_of(one), page_of(lab, one)) for one in lab.chapters]
        said = _belongings(lab, to) + _beside("the chapter ", chapters, to)
    else:
        pairs = [(lab, one) for lab in labs for one in lab.chapters if pages.name_of(one) == pagename]
        if not pairs:
            return
        said = _beside("", [(f"Lab {lab.number}", page_of(lab, one)) for lab, one in pairs], to)
    context["body"] = context["body"].replace("</h1>", f'</h1><div class="lab-links">{said}</div>', 1)


def _belongings(lab: Lab, to: Callable[[str], str]) -> str:
    links = {
        "Chapter": to(pages.name_of(lab.chapters[0])),
        "Starter": to(files.page_of(lab.starter)),
        "Exercises": "#exercises",
        "Notebook": to(pages.name_of(lab.notebook)),
        "Solution": to(pages.name_of(lab.solutions / "notebook.ipynb")),
    }
    items = "".join(f'<li><a href="{uri}">{name}</a></li>' for name, uri in links.items())
    return f'<nav aria-label="What belongs to this lab"><ul>{items}</ul></nav>'


def _beside(what: str, others: list[tuple[str, str]], to: Callable[[str], str]) -> str:
    links = [f'<a href="{to(page)}">{escape(title)}</a>' for title, page in others]
    return f"<p>Read beside {what}{' or '.join(filter(None, [', '.join(links[:-1]), links[-1]]))}.</p>"


def _mark(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """In the map, the line of a lab's first chapter stands for the pair that is open."""
    if templatename != "reader.html":
        return
    first = page_of(context["lab"], context["lab"].chapters[0])
    context["site_map"]["Labs"] = [
        replace(entry, under=tuple(replace(one, page=pagename) if one.page == first else one for one in entry.under))
        for entry in context["site_map"]["Labs"]
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_css_file("reader.css")
    app.add_js_file("reader.js")
    app.connect("html-page-context", _invite)
    app.connect("html-page-context", _mark, priority=600)  # once the map is there
    app.connect("html-collect-pages", _compose, priority=900)  # once all other pages are written
    return {"parallel_read_safe": True, "parallel_write_safe": True}
