"""A page and all that it loads arrive within 4 seconds on a slow phone connection, of 1.6 Mbit/s."""

import gzip
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Page
from tiers import sampled

from rankzero.curriculum import ROOT, all_labs
from rankzero.figures import themes
from rankzero.figures.registry import all_figures
from rankzero.publish.site.markdown.drawn_figures import compact
from rankzero.publish.site.page_names import name_of, side_by_side_page
from rankzero.publish.site.source import diff_pages

LABS = all_labs()
FILES = [*ROOT.glob("handbook/*.md"), *(lab.page for lab in LABS)]
NOTEBOOKS = [f"notebooks/{lab.slug}" for lab in LABS]
READERS = [side_by_side_page(lab, chapter) for lab in LABS for chapter in lab.chapters]
DIFFS = [diff_pages.page_of(labs) for labs in diff_pages.compared_labs()]
PAGES = sorted({"index", "calculator", "progress", *map(name_of, FILES), *NOTEBOOKS, *READERS, *DIFFS})

BYTES_PER_SECOND = 1.6e6 / 8
LIMIT = (4 - 1) * BYTES_PER_SECOND  # one second is for round trips, of which a page needs about six, one after another
LOADED = "() => document.fonts.ready.then(() => performance.getEntriesByType('resource').map((entry) => entry.name))"
COMPRESSED = {".html", ".js", ".css", ".svg"}  # by servers, GitHub Pages among them


@cache
def sent(file: Path) -> int:
    """Returns the bytes that a server sends for a file."""
    content = file.read_bytes()
    return len(gzip.compress(content) if file.suffix in COMPRESSED else content)


@pytest.mark.parametrize("name", sampled(PAGES, {"index", "handbook/claims", "read/lab-02-training-loop"}))
def test_a_page_is_light(site: Path, page: Page, name: str) -> None:
    file = site / f"{name}.html"
    page.goto(file.as_uri())
    loaded = {Path(unquote(urlsplit(name).path)) for name in page.evaluate(LOADED) if name.startswith("file:")}
    assert sum(map(sent, {file, *loaded})) <= LIMIT


def test_a_picture_in_a_page_shares_its_styles() -> None:
    svg = '<svg><style>*{a: b}</style>\n <g style="x: 1"/>\n <g style="x: 1"/><g style="y: 2"/></svg>'
    small = compact(svg)
    assert small.count("x: 1") == 1
    assert len(re.findall(r'<g class="s\w{6}"/>', small)) == 2
    assert '<g style="y: 2"/>' in small


def test_each_element_of_a_figure_keeps_its_style() -> None:
    """A browser ignores the second `class` of an element, and with it the font and the color of a label."""
    for figure in all_figures().values():
        svg = compact(themes.inline(figure.file("light").read_text(encoding="utf-8"), figure.description))
        assert not re.search(r'<[^>]* class="[^>]* class="', svg), figure.name
    svg = '<svg><style></style><text class="outlined" style="fill: red">a</text><g style="fill: red"/></svg>'
    (name,) = re.findall(r"svg \.(\w+)\{fill: red\}", compact(svg))
    assert f'<text class="outlined {name}">a</text><g class="{name}"/>' in compact(svg)
