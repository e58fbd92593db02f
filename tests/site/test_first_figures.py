"""Each page's first figure is seen without scrolling, on a desktop and on a phone."""

from pathlib import Path

import pytest
from playwright.sync_api import Page
from tiers import sampled

from rankzero.curriculum import ROOT, all_labs
from rankzero.publish.site.page_names import name_of

WINDOWS = ((1440, 900), (390, 844))
SEEN = 120  # pixels of the first figure that are in the window
NO_CHAPTERS = {"README.md", "claims.md"}  # the contents, and a generated table
CHAPTERS = [page for page in sorted((ROOT / "handbook").glob("*.md")) if page.name not in NO_CHAPTERS]
LABS = [lab.page for lab in all_labs()]
SAMPLE = {*LABS, ROOT / "handbook" / "distributed-data-parallel.md", ROOT / "handbook" / "planning.md"}


def windows_without_a_figure(page: Page) -> list[tuple[int, int]]:
    """Returns the windows in which less than SEEN pixels of the page's first figure are seen without scrolling."""
    low = []
    for width, height in WINDOWS:
        page.set_viewport_size({"width": width, "height": height})
        picture = page.locator("article :is(figure.drawn, figure.diagram) svg:visible").first.bounding_box()
        if picture is None or picture["y"] + min(SEEN, picture["height"]) > height:
            low.append((width, height))
    return low


@pytest.mark.parametrize("source", sampled([*LABS, *CHAPTERS], SAMPLE))
def test_the_first_figure_is_seen_without_scrolling(site: Path, page: Page, source: Path) -> None:
    page.goto((site / f"{name_of(source)}.html").as_uri())
    assert windows_without_a_figure(page) == [], "move the figure up to the question, or shorten the text above it"


@pytest.mark.parametrize(("above", "low"), [(700, []), (760, [(390, 844)]), (800, [(1440, 900), (390, 844)])])
def test_a_figure_that_is_too_low_is_found(page: Page, above: int, low: list[tuple[int, int]]) -> None:
    drawing = '<figure class="drawn"><svg width="300" height="300" style="display: block"></svg></figure>'
    page.set_content(f'<body style="margin: 0"><article><div style="height: {above - 16}px"></div>{drawing}</article>')
    assert windows_without_a_figure(page) == low
