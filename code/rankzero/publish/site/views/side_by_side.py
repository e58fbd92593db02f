"""Side-by-side pages: a chapter and a lab in two panes, with links to the lab's other pages.

The panes show pages that were written before, with everything that other parts of the site add to them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from rankzero.curriculum import Lab, all_labs
from rankzero.publish.site import page_names
from rankzero.publish.site.source import diff_pages
from rankzero.publish.site.views.embedded_page import Place, lead, take

CHAPTER, STARTER = "chapter--", "starter--"  # before the ids of a chapter and of a starter; a lab's stay as they are


def _places(lab: Lab, here: str) -> dict[str, Place]:
    """Where the reader's page `here` shows what it shows, and where its links to the lab's other chapters lead."""
    return {
        f"{page_names.name_of(lab.page)}.html": Place(f"{here}.html", "", "lab"),
        f"{page_names.source_page(lab.starter)}.html": Place(f"{here}.html", STARTER, "starter"),
        **{
            f"{page_names.name_of(chapter)}.html": Place(
                f"{page_names.side_by_side_page(lab, chapter)}.html", CHAPTER, "chapter"
            )
            for chapter in lab.chapters
        },
    }


def _context(lab: Lab, chapter: Path, body: Callable[[str, str], str]) -> dict[str, Any]:
    here = page_names.side_by_side_page(lab, chapter)
    sources = {
        "chapter": (page_names.name_of(chapter), CHAPTER),
        "lab": (page_names.name_of(lab.page), ""),
        "starter": (page_names.source_page(lab.starter), STARTER),
    }
    parts = {name: lead(body(*source), f"{here}.html", _places(lab, here)) for name, source in sources.items()}
    return {
        "title": f"{page_names.title_of(chapter)}, beside Lab {lab.number}",
        "lab": lab,
        "chapter_title": page_names.title_of(chapter),
        "chapters": [(page_names.title_of(one), page_names.side_by_side_page(lab, one)) for one in lab.chapters],
        "elsewhere": [
            *(("Diff", page) for _, page in diff_pages.pages_of(lab)[:1]),  # with the starter before, or with the next
            ("Notebook", page_names.name_of(lab.notebook)),
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
            yield page_names.side_by_side_page(lab, chapter), _context(lab, chapter, body), "side-by-side.html"


def _invite(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Says under a lab's title what belongs to it, and under a chapter's which labs can be read beside it."""
    labs = all_labs()
    to = context["pathto"]
    if lab := next((lab for lab in labs if page_names.name_of(lab.page) == pagename), None):
        chapters = [(page_names.title_of(one), page_names.side_by_side_page(lab, one)) for one in lab.chapters]
        said = _belongings(lab, to) + _beside("the chapter ", chapters, to)
    else:
        pairs = [(lab, one) for lab in labs for one in lab.chapters if page_names.name_of(one) == pagename]
        if not pairs:
            return
        said = _beside("", [(f"Lab {lab.number}", page_names.side_by_side_page(lab, one)) for lab, one in pairs], to)
    context["body"] = context["body"].replace("</h1>", f'</h1><div class="lab-links">{said}</div>', 1)


def _belongings(lab: Lab, to: Callable[[str], str]) -> str:
    links = {
        "Chapter": to(page_names.name_of(lab.chapters[0])),
        "Starter": to(page_names.source_page(lab.starter)),
        "Exercises": "#exercises",
        "Notebook": to(page_names.name_of(lab.notebook)),
        "Solution": to(page_names.name_of(lab.solutions / "notebook.ipynb")),
    }
    items = "".join(f'<li><a href="{uri}">{name}</a></li>' for name, uri in links.items())
    return f'<nav aria-label="What belongs to this lab"><ul>{items}</ul></nav>'


def _beside(what: str, others: list[tuple[str, str]], to: Callable[[str], str]) -> str:
    links = [f'<a href="{to(page)}">{escape(title)}</a>' for title, page in others]
    return f"<p>Read beside {what}{' or '.join(filter(None, [', '.join(links[:-1]), links[-1]]))}.</p>"


def _mark(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """In the map, the line of a lab's first chapter stands for the pair that is open."""
    if templatename != "side-by-side.html":
        return
    first = page_names.side_by_side_page(context["lab"], context["lab"].chapters[0])
    context["site_map"]["Labs"] = [
        replace(entry, under=tuple(replace(one, page=pagename) if one.page == first else one for one in entry.under))
        for entry in context["site_map"]["Labs"]
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.add_css_file("side-by-side.css")
    app.add_js_file("side-by-side.js")
    app.connect("html-page-context", _invite)
    app.connect("html-page-context", _mark, priority=600)  # once the map is there
    app.connect("html-collect-pages", _compose, priority=900)  # once all other pages are written
    return {"parallel_read_safe": True, "parallel_write_safe": True}
