"""Front page: README.md with the labs as cards, followed by the chapters."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from rankzero.curriculum import ROOT, Lab, all_labs
from rankzero.publish.site import page_names

INSTALL, LABS = "install-and-run", "the-labs"  # anchors of the two sections of README that the front page lays out
FIRST = "02"  # the first lab for a beginner


@dataclass
class Readme:
    """README's parts, as HTML."""

    anchor: str
    title: str
    lead: str  # the first paragraph
    promise: str  # the other paragraphs, figures and screens before the first heading
    install: str
    labs: str  # the section without its table
    planned: list[tuple[str, str]]  # titles and summaries of the labs that do not exist yet
    rest: list[str]  # the other sections
    notes: str  # the notes of the claims' badges, which claim-badges.js shows


def read(body: str) -> Readme:
    """Returns the parts of README's page. AttributeError or KeyError if a section named above is missing."""
    page = BeautifulSoup(body, "html.parser")
    readme = page.section
    sections = {str(part["id"]): part.extract() for part in readme.find_all("section", recursive=False)}
    rows = [row.find_all("td") for row in sections[LABS].table.tbody.find_all("tr")]
    planned = [(cells[0].p.decode_contents(), cells[1].p.decode_contents()) for cells in rows if not cells[0].a]
    sections[LABS].select_one(".table-wrapper, table").extract()
    title, lead = readme.h1.extract(), readme.p.extract()
    between = readme.find_all(["p", "figure", "div"], recursive=False)  # a div is a screen of output
    return Readme(
        anchor=str(readme["id"]),
        title=title.decode_contents(),
        lead=lead.decode_contents(),
        promise="".join(str(part) for part in between if "toctree-wrapper" not in part.get("class", [])),
        install=str(sections.pop(INSTALL)),
        labs=sections.pop(LABS).decode_contents(),
        planned=planned,
        rest=[str(part) for part in sections.values()],
        notes="".join(str(note) for note in page.find_all("template")),
    )


def topics() -> dict[str, str]:
    """Returns the topic of each chapter, by its page: the first topic in the handbook's map that names the chapter."""
    text = (ROOT / "handbook" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| \[[^\]]+\]\(([\w-]+)\.md\)", text, re.MULTILINE)
    return {f"handbook/{name}": topic for topic, name in reversed(rows)}


def _links(lab: Lab) -> list[tuple[str, str]]:
    return [
        ("Chapter", page_names.side_by_side_page(lab, lab.chapters[0])),
        ("Starter", page_names.source_page(lab.starter)),
        ("Exercises", f"{page_names.name_of(lab.page)}#exercises"),
        ("Notebook", page_names.name_of(lab.notebook)),
    ]


def _lay_out(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> str | None:
    if pagename != page_names.FRONT:
        return None
    first, topic_of = next(lab for lab in all_labs() if lab.number == FIRST), topics()
    context |= {
        "readme": read(context["body"]),
        "labs": [(lab, page_names.name_of(lab.page), _links(lab)) for lab in all_labs()],
        "first": first,
        "first_page": page_names.name_of(first.page),
        "chapters": [
            (page_names.title_of(file), name, topic_of[name])
            for file in page_names.chapters()
            if (name := page_names.name_of(file)) in topic_of
        ],
        "furo_hide_toc": True,
    }
    return "home.html"


class SiteBuilder(StandaloneHTMLBuilder):
    """Writes the page of the repository's README to index.html."""

    search = False  # Sphinx's own search, with its page and its index: search_index.py makes another

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        """Returns a page's address, as Sphinx does, but "index" for the front page."""
        return super().get_target_uri("index" if docname == page_names.FRONT else docname, typ)

    def get_output_path(self, page_name: str, /) -> Path:
        """Returns a page's file, as Sphinx does, but "index" for the front page."""
        return Path(super().get_output_path("index" if page_name == page_names.FRONT else page_name))


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_builder(SiteBuilder, override=True)
    app.add_css_file("home.css")
    app.connect("html-page-context", _lay_out, priority=900)  # after all other modules have changed the page
