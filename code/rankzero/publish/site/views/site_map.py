"""Which pages there are, in which order, and how a reader gets from one to another: the map beside every page.

The order is the repository's own: labs by number, chapters as `handbook/README.md` lists them.
"""

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from rankzero.curriculum import ROOT, Lab, all_labs

FRONT = "README"


@dataclass(frozen=True)
class Entry:
    """A line of the map. `page` is a page's name, without suffix, perhaps with an anchor.

    While one of its pages is open, the map shows the lines `under` it; a `guest` there belongs to others as well.
    """

    title: str
    page: str
    under: tuple["Entry", ...] = field(default=())
    guest: bool = False

    @property
    def pages(self) -> set[str]:
        """Its own page and those below it."""
        return {self.page.split("#")[0], *(page for entry in self.under if not entry.guest for page in entry.pages)}


def name_of(file: Path, root: Path = ROOT) -> str:
    """A markdown file or notebook as Sphinx names its page: relative to the repository, without suffix."""
    return str(file.relative_to(root).with_suffix(""))


def title_of(file: Path) -> str:
    """The first heading of a markdown file."""
    return next(line[2:].strip() for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("# "))


def chapters(root: Path = ROOT) -> list[Path]:
    """Every file of the handbook, in the order of its own map; files that the map leaves out come last."""
    folder = root / "handbook"
    listed = re.findall(r"\(([\w-]+\.md)[)#]", (folder / "README.md").read_text(encoding="utf-8"))
    files = [folder / name for name in dict.fromkeys(listed)]
    return [*files, *sorted(set(folder.glob("*.md")) - {*files, folder / "README.md"})]


def parts_of(lab: Lab) -> tuple[Entry, ...]:
    """What a lab consists of, one line each."""
    from rankzero.publish.site.source import source_pages as files
    from rankzero.publish.site.views import reader  # which import this module

    page = name_of(lab.page, lab.root)
    return (
        Entry("Chapter and lab, side by side", reader.page_of(lab, lab.chapters[0])),
        *(Entry(title_of(chapter), name_of(chapter, lab.root), guest=True) for chapter in lab.chapters),
        Entry("Starter, annotated", files.page_of(lab.starter, lab.root)),
        Entry("Exercises", f"{page}#exercises"),
        Entry("Notebook", name_of(lab.notebook, lab.root)),
        Entry("Notebook, solved", name_of(lab.solutions / "notebook.ipynb", lab.root)),
        Entry("How to read the code", name_of(lab.folder / "README.md", lab.root)),
    )


@functools.cache
def site_map(root: Path = ROOT) -> dict[str, list[Entry]]:
    """The map, by headings."""
    labs = [
        Entry(title_of(lab.page).removeprefix("Lab "), name_of(lab.page, root), parts_of(lab)) for lab in all_labs(root)
    ]
    books = {name_of(file, root): Entry(title_of(file), name_of(file, root)) for file in chapters(root)}
    last = ("handbook/errata", "handbook/claims", "handbook/for-instructors")
    return {
        "Begin": [
            Entry("Install and run", FRONT),
            Entry("The map of topics", "handbook/README"),
            books.pop("handbook/how-to-read"),
        ],
        "Labs": labs,
        "Handbook": [entry for name, entry in books.items() if name not in last],
        "Look up": [
            Entry("Ledger calculator", "calculator"),
            Entry("Quizzes, and your progress", "progress"),
            *(books[name] for name in last[:2]),
        ],
        "Teach": [books[last[2]], Entry("Launching", "launch/README")],
    }


def _add_toctrees(app: Sphinx, docname: str, source: list[str]) -> None:
    """Tells Sphinx the order of pages, for "next" and "previous": labs, then chapters, then the rest."""
    if docname != FRONT:
        return
    names = [entry.page for entries in site_map().values() for entry in entries if "/" in entry.page]
    names += sorted(name for name in app.project.docnames if name not in {*names, FRONT})
    source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(f"/{name}" for name in names) + "\n```\n"


def _give_map(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    context["site_map"] = dict(site_map())


class SiteBuilder(StandaloneHTMLBuilder):
    """Makes of the repository's README the site's front page, index.html."""

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        """As Sphinx has it, but for the front page."""
        return super().get_target_uri("index" if docname == FRONT else docname, typ)

    def get_output_path(self, page_name: str, /) -> Path:
        """As Sphinx has it, but for the front page."""
        return Path(super().get_output_path("index" if page_name == FRONT else page_name))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_builder(SiteBuilder, override=True)
    app.connect("source-read", _add_toctrees)
    app.connect("html-page-context", _give_map)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
