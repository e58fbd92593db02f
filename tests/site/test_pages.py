"""Every page loads offline without errors, has no broken links, and is accessible."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from rankzero.curriculum import ROOT, all_labs
from rankzero.publish.site import npm_packages, page_names
from rankzero.publish.site.page_names import chapters, name_of
from rankzero.publish.site.source import diff_pages

LAB, CHAPTER = all_labs()[2], chapters()[1]  # Lab 02
# One page of each kind, for tests that take some seconds per page.
KINDS = {
    "front": "index.html",
    "lab": f"{name_of(LAB.page)}.html",
    "chapter": "handbook/memory.html",
    "claims": "handbook/claims.html",
    "calculator": "calculator.html",
    "reader": "read/lab-02-training-loop.html",
    "progress": "progress.html",
    "notebook": f"{name_of(LAB.solutions / 'notebook.ipynb')}.html",
    "annotated": f"{page_names.source_page(LAB.starter)}.html",
    "file": f"{page_names.source_page(ROOT / 'code/rankzero/learn/models/gpt.py')}.html",
    "missing": "404.html",
    "folder": f"{page_names.source_page(ROOT / 'tests/attacks')}.html",
    "diff": f"{diff_pages.pages_of(LAB)[0][1].partition('#')[0]}.html",
}
AXE = npm_packages.path("axe-core/axe.min.js")
SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The table of claims has hundreds of similar bodies, and axe needs a tenth of a second for each.
SHORTEN_TABLES = "() => [...document.querySelectorAll('tbody')].slice(30).forEach(body => body.remove())"
# Furo opens its menus with checkboxes that must come before the page's parts, outside all landmarks; both have names.
AXE_CONTEXT = {"exclude": [".sidebar-toggle"]}
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "preload": False}
COLORS = {"runOnly": ["color-contrast"], "preload": False}


def pages_of(site: Path) -> list[Path]:
    return sorted(file for file in site.rglob("*.html") if "_static" not in file.parts)


def test_the_site_has_every_page_of_the_repository(site: Path) -> None:
    sources = [*ROOT.glob("handbook/*.md"), *ROOT.glob("labs/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    missing = [file for file in sources if not (site / f"{name_of(file)}.html").exists()]
    assert not missing
    assert len(sources) > 30


@cache
def targets_in(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r'<[a-z][^>]*?\s(?:id|name)="([^"]+)"', file.read_text("utf-8")))


def links_in(file: Path) -> Iterator[tuple[str, str]]:
    for tag, href in re.findall(r'<(a|link|script|img)\b[^>]*?\s(?:href|src)="([^"]*)"', file.read_text("utf-8")):
        yield tag, href.replace("&amp;", "&")


def test_every_link_has_a_target(site: Path) -> None:
    broken = set()
    for file in pages_of(site):
        for _, href in links_in(file):
            parts = urlsplit(href)
            if parts.scheme or not href or href == "#":
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                broken.add(f"{file.relative_to(site)}: {href}")
            elif target.name == "calculator.html" and "=" in parts.fragment:
                continue  # a setting; test_calculator_links.py follows it
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in targets_in(target):
                broken.add(f"{file.relative_to(site)}: {href} (no such anchor)")
    assert not broken, "\n".join(sorted(broken)[:40])


def test_no_page_loads_files_from_the_network(site: Path) -> None:
    outside = [
        f"{file.relative_to(site)}: {href}"
        for file in pages_of(site)
        for tag, href in links_in(file)
        if tag != "a" and urlsplit(href).scheme not in ("", "data")
    ]
    sheets = [
        file for file in (site / "_static").rglob("*.css") if re.search(r"url\(.?(?:https?:)?//", file.read_text())
    ]
    assert not outside
    assert not sheets


def test_no_page_has_an_id_twice(site: Path) -> None:
    twice = {}
    for file in pages_of(site):
        ids = re.findall(r'<[a-z][^>]*?\sid="([^"]+)"', file.read_text("utf-8"))
        if len(ids) != len(set(ids)):
            twice[str(file.relative_to(site))] = sorted({name for name in ids if ids.count(name) > 1})[:5]
    assert not twice


@pytest.mark.timeout(600)
def test_every_page_loads_without_errors_and_does_not_scroll_sideways_on_a_phone(site: Path, page: Page) -> None:
    """The fixture `context` fails the test for errors, warnings and requests."""
    page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    for file in pages_of(site):
        page.goto(file.as_uri(), wait_until="load")
        if (over := page.evaluate(SIDEWAYS)) > 0:
            wide[str(file.relative_to(site))] = over
    assert not wide


@pytest.mark.parametrize("kind", KINDS)
def test_map_text_and_contents_fit_every_wide_window(site: Path, page: Page, kind: str) -> None:
    page.goto((site / KINDS[kind]).as_uri())
    for width in (1920, 1440, 1366, 1280, 1024):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(SIDEWAYS) <= 0, width


@pytest.mark.parametrize("chapter", ["training-loop", "memory"])  # with a diagram and without
def test_a_chapter_in_a_wide_window_has_its_contents_beside_it(site: Path, page: Page, chapter: str) -> None:
    page.goto((site / f"handbook/{chapter}.html").as_uri())
    expect(page.locator(".toc-drawer").get_by_role("link", name="Takeaway")).to_be_visible()


WIDE_CODE = """() => [...document.querySelectorAll("pre")]
  .filter((box) => box.clientWidth && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.innerText.split("\\n").reduce((first, next) => (next.length > first.length ? next : first)))"""


def test_code_fits_the_panes_of_the_reader(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    for file in sorted((site / "read").glob("*.html")):
        page.goto(file.as_uri())
        for tab in ("Lab", "Starter"):
            page.locator(".reader-bar-right").get_by_role("link", name=tab, exact=True).click()
            assert page.evaluate(WIDE_CODE) == [], file


@pytest.mark.parametrize("kind", ["lab", "chapter", "annotated", "file", "diff", "reader", "front"])
def test_code_wraps_on_a_phone(site: Path, page: Page, kind: str) -> None:
    """A program's output keeps its columns, and scrolls."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / KINDS[kind]).as_uri())
    page.evaluate("() => document.querySelectorAll('.highlight-text').forEach((output) => output.remove())")
    assert page.evaluate(WIDE_CODE) == []


def test_a_wrapped_line_goes_on_under_its_own_beginning(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / KINDS["lab"]).as_uri())
    line = page.locator(".highlight-python .line", has_text="optimizer.zero_grad(set_to_none=True)").first
    pieces = line.evaluate("""line => {
        const range = document.createRange();
        range.selectNodeContents(line);
        return [...range.getClientRects()].filter((box) => box.width > 1).map((box) => [box.top, box.left]);
    }""")
    first = min(top for top, _ in pieces)
    below = [left for top, left in pieces if top > first + 8]
    assert below
    assert min(below) > min(left for top, left in pieces if top <= first + 8)


def test_an_address_without_a_page_shows_ways_to_the_pages(site: Path, browser: Browser) -> None:
    """A server shows 404.html at any address; the site's own address is unknown when the site is built."""
    context = browser.new_context()

    def serve(route: Route) -> None:
        file = site / urlsplit(route.request.url).path.removeprefix("/rank-zero/")
        missing = not file.is_file()
        route.fulfill(path=site / "404.html" if missing else file, status=404 if missing else 200)

    context.route("**/*", serve)
    page = context.new_page()
    for address in ("handbook/gone.html", "gone.html", "source/code/gone/gone.py.html"):
        page.goto(f"https://site.invalid/rank-zero/{address}")
        expect(page.get_by_role("heading", name="No page here")).to_be_visible()
        expect(page.locator("body")).to_have_css("margin-top", "0px")  # the style sheets are there
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.press("Escape")
        page.get_by_role("main").get_by_role("link", name="The map of topics").click()
        expect(page.get_by_role("heading", name="The handbook")).to_be_visible()
    context.close()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_no_violation(site: Path, context: BrowserContext, kind: str, width: int) -> None:
    """The dark theme differs only in colors, so it is checked for contrast alone."""
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto((site / KINDS[kind]).as_uri())
    page.evaluate(SHORTEN_TABLES)
    page.add_script_tag(path=AXE)
    problems = problems_of(page, RULES)
    page.emulate_media(color_scheme="dark")
    problems += [f"in the dark: {problem}" for problem in problems_of(page, COLORS)]
    assert not problems, "\n".join(problems)


def problems_of(page: Page, rules: dict[str, Any]) -> list[str]:
    violations = page.evaluate("([context, rules]) => axe.run(context, rules)", [AXE_CONTEXT, rules])["violations"]
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for violation in violations
        for node in violation["nodes"][:3]
    ]


def test_the_map_scrolls_to_the_entry_of_the_page(site: Path, page: Page) -> None:
    """The map is longer than the window, and this page is near the map's end."""
    page.set_viewport_size({"width": 1440, "height": 700})
    page.goto((site / "handbook" / "claims.html").as_uri())
    expect(page.locator(".map [aria-current]")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("heading", name="Claims", level=1)).to_be_in_viewport()


def test_on_a_phone_the_map_opens_by_keyboard(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / KINDS["chapter"]).as_uri())
    expect(page.get_by_role("link", name="Ledger calculator")).not_to_be_in_viewport()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "__navigation"
    page.keyboard.press("Space")
    expect(page.locator("a[aria-current=page]")).to_be_in_viewport()


def test_a_button_with_keyboard_focus_is_visible(site: Path, page: Page) -> None:
    page.goto((site / KINDS["lab"]).as_uri())
    button = page.locator("button.copybtn").first
    page.locator("pre").first.focus()
    while not button.evaluate("element => element === document.activeElement"):
        page.keyboard.press("Tab")
    expect(button).to_have_css("opacity", "1")
    expect(button).to_have_css("outline-style", "solid")
