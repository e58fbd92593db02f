"""Side-by-side pages: a chapter and a lab in two panes, with links to the lab's other pages.

The panes show the finished pages, with everything that the other modules of the site add to them.
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

CHAPTER, STARTER = "chapter--", "starter--"  # prefixes of a chapter's and a starter's ids; a lab's have none


def _places(lab: Lab, here: str) -> dict[str, Place]:
    """Returns the places of a lab and its starter on the page `here`, and of each chapter on its side-by-side page."""
    places = {
        page_names.name_of(lab.page): Place(f"{here}.html", "", "lab"),
        page_names.source_page(lab.starter): Place(f"{here}.html", STARTER, "starter"),
    }
    for chapter in lab.chapters:
        file = f"{page_names.side_by_side_page(lab, chapter)}.html"
        places[page_names.name_of(chapter)] = Place(file, CHAPTER, "chapter")
    return {f"{page}.html": place for page, place in places.items()}


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
        "chapters": _chapter_pages(lab),
        "other_pages": [
            *(("Diff", page) for _, page in diff_pages.pages_of(lab)[:1]),  # from the previous lab, or to the next lab
            ("Notebook", page_names.name_of(lab.notebook)),
        ],
        "parts": parts,
        "sources": {name: page for name, (page, _) in sources.items()},
        "body": "".join(parts.values()),  # other modules search it for the features that a page needs
    }


def _chapter_pages(lab: Lab) -> list[tuple[str, str]]:
    """Returns the title of each of a lab's chapters, with the page that shows the lab beside it."""
    return [(page_names.title_of(file), page_names.side_by_side_page(lab, file)) for file in lab.chapters]


def _compose(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    @cache
    def body(page: str, prefix: str) -> str:
        return take(Path(app.builder.get_output_path(page)).read_text(encoding="utf-8"), page, prefix)

    for lab in all_labs():
        for chapter in lab.chapters:
            yield page_names.side_by_side_page(lab, chapter), _context(lab, chapter, body), "side-by-side.html"


def _add_links(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Adds links under a lab's title to the lab's other pages, and under a chapter's title to the labs beside it."""
    labs = all_labs()
    to = context["pathto"]
    if lab := next((lab for lab in labs if page_names.name_of(lab.page) == pagename), None):
        links = _part_links(lab, to) + _beside("the chapter ", _chapter_pages(lab), to)
    else:
        pairs = [(lab, file) for lab in labs for file in lab.chapters if page_names.name_of(file) == pagename]
        if not pairs:
            return
        links = _beside("", [(f"Lab {lab.number}", page_names.side_by_side_page(lab, file)) for lab, file in pairs], to)
    context["body"] = context["body"].replace("</h1>", f'</h1><div class="lab-links">{links}</div>', 1)


def _part_links(lab: Lab, to: Callable[[str], str]) -> str:
    links = {
        "Chapter": to(page_names.name_of(lab.chapters[0])),
        "Starter": to(page_names.source_page(lab.starter)),
        "Exercises": "#exercises",
        "Notebook": to(page_names.name_of(lab.notebook)),
        "Solution": to(page_names.name_of(lab.solutions / "notebook.ipynb")),
    }
    items = "".join(f'<li><a href="{uri}">{name}</a></li>' for name, uri in links.items())
    return f'<nav aria-label="Parts of this lab"><ul>{items}</ul></nav>'


def _beside(noun: str, pages: list[tuple[str, str]], to: Callable[[str], str]) -> str:
    links = [f'<a href="{to(page)}">{escape(title)}</a>' for title, page in pages]
    return f"<p>Read beside {noun}{' or '.join(filter(None, [', '.join(links[:-1]), links[-1]]))}.</p>"


def _update_map(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Makes the sidebar map's line for a lab's first side-by-side page lead to the page that is open."""
    if templatename != "side-by-side.html":
        return
    first = page_names.side_by_side_page(context["lab"], context["lab"].chapters[0])
    context["site_map"]["Labs"] = [
        replace(lab, under=tuple(replace(line, page=pagename) if line.page == first else line for line in lab.under))
        for lab in context["site_map"]["Labs"]
    ]


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_css_file("side-by-side.css")
    app.add_js_file("side-by-side.js")
    app.connect("html-page-context", _add_links)
    app.connect("html-page-context", _update_map, priority=600)  # after sidebar_map.py, which adds the map
    app.connect("html-collect-pages", _compose, priority=900)  # after all other pages are written
