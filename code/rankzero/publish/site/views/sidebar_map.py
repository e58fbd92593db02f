"""Sidebar map: the list of all pages, in order, beside every page.

Labs are in the order of their numbers, chapters in the order of `handbook/README.md`.
"""

import functools
from dataclasses import dataclass
from typing import Any

from sphinx.application import Sphinx

from rankzero.curriculum import Lab, all_labs
from rankzero.publish.site.page_names import FRONT, chapters, name_of, side_by_side_page, source_page, title_of


@dataclass(frozen=True)
class Entry:
    """A line of the map. `page` is a page's name, without suffix, perhaps with an anchor.

    While one of the line's pages is open, the map shows the lines `under` it. A `guest` among them leads to a page
    that has its own line elsewhere in the map; opening that page does not show these lines.
    """

    title: str
    page: str
    under: tuple["Entry", ...] = ()
    guest: bool = False

    @property
    def pages(self) -> set[str]:
        """The line's page and the pages under it."""
        return {self.page.split("#")[0], *(page for entry in self.under if not entry.guest for page in entry.pages)}


def parts_of(lab: Lab) -> tuple[Entry, ...]:
    """Returns the lines of a lab's parts."""
    return (
        Entry("Chapter and lab, side by side", side_by_side_page(lab, lab.chapters[0])),
        *(Entry(title_of(chapter), name_of(chapter), guest=True) for chapter in lab.chapters),
        Entry("Starter, annotated", source_page(lab.starter)),
        Entry("Exercises", f"{name_of(lab.page)}#exercises"),
        Entry("Notebook", name_of(lab.notebook)),
        Entry("Notebook, solved", name_of(lab.solutions / "notebook.ipynb")),
        Entry("How to read the code", name_of(lab.folder / "README.md")),
    )


@functools.cache
def site_map() -> dict[str, list[Entry]]:
    """Returns the lines of the map by heading."""
    by_name = {name_of(file): Entry(title_of(file), name_of(file)) for file in chapters()}
    apart = ("handbook/errata", "handbook/claims", "handbook/for-instructors")
    return {
        "Begin": [
            Entry("Install and run", FRONT),
            Entry("The map of topics", "handbook/README"),
            by_name.pop("handbook/how-to-read"),
        ],
        "Labs": [
            Entry(title_of(lab.page).removeprefix("Lab "), name_of(lab.page), parts_of(lab)) for lab in all_labs()
        ],
        "Handbook": [entry for name, entry in by_name.items() if name not in apart],
        "Look up": [
            Entry("Ledger calculator", "calculator"),
            Entry("Quizzes, and your progress", "progress"),
            *(by_name[name] for name in apart[:2]),
        ],
        "Teach": [by_name[apart[2]], Entry("Launching", "launch/README")],
    }


def _add_toctrees(app: Sphinx, docname: str, source: list[str]) -> None:
    """Adds a table of contents to the front page: its order gives each page's "next" and "previous" links."""
    if docname != FRONT:
        return
    names = [entry.page for entries in site_map().values() for entry in entries if "/" in entry.page]
    names += sorted(name for name in app.project.docnames if name not in {*names, FRONT})
    source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(f"/{name}" for name in names) + "\n```\n"


def _drop_tree(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Replaces the theme's tree of all pages, which the map replaces: making it takes most of a page's time."""
    context["toctree"] = lambda **options: ""


def _add_map(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    context["site_map"] = dict(site_map())


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("source-read", _add_toctrees)
    app.connect("html-page-context", _drop_tree, priority=400)  # before the theme makes the tree
    app.connect("html-page-context", _add_map)
