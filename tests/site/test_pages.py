"""Every page is well formed, has no broken links, and loads offline without errors; the pages are accessible."""

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect
from tiers import sampled

from rankzero.curriculum import ROOT, all_labs, find_lab
from rankzero.publish.site import npm_packages, page_names
from rankzero.publish.site.page_names import chapters, name_of, side_by_side_page
from rankzero.publish.site.source import diff_pages, source_pages

LAB = find_lab("02")
LABS = [f"{name_of(lab.page)}.html" for lab in all_labs()]
CHAPTERS = [f"{name_of(chapter)}.html" for chapter in chapters()]
READERS = [f"{side_by_side_page(lab, chapter)}.html" for lab in all_labs() for chapter in lab.chapters]
# One page of each kind.
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


def every_page() -> list[str]:
    """Returns the names of all pages: those of the built site, or without one those that the repository must have."""
    if built := os.environ.get("RANKZERO_SITE"):
        return [file.relative_to(Path(built)).as_posix() for file in pages_of(Path(built))]
    files = [f"{page_names.source_page(file)}.html" for file in source_pages.annotated()]
    return sorted({*KINDS.values(), *LABS, *CHAPTERS, *READERS, *files})


# ---------------------------------------------------------------------------------------------------------- the files
TAG = re.compile(r"""<!--.*?-->|<(/?)([a-zA-Z][\w:-]*)((?:[^<>"']|"[^"]*"|'[^']*')*)>""", re.DOTALL)
RAW = re.compile(r"(<(script|style|textarea|title)\b[^>]*>).*?(</\2>)", re.DOTALL)  # their content is no HTML
NAME = re.compile(r"""\s(id|name)="([^"]+)\"""")
ADDRESS = re.compile(r"""\s(?:href|src)="([^"]*)\"""")
VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
MAY_STAY_OPEN = frozenset(["p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "colgroup"])


@dataclass
class File:
    """The ids, links and wrong tags of a page's file."""

    ids: Counter[str] = field(default_factory=Counter)
    targets: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)  # tag and address
    wrong: list[str] = field(default_factory=list)  # tags that close nothing, or are not closed


@cache
def files_of(site: Path) -> dict[Path, File]:
    """Returns what each page of the site has, from one pass over its files."""
    return {file: read(file.read_text("utf-8")) for file in pages_of(site)}


def read(text: str) -> File:
    """Returns what a page has."""
    page, opened = File(), list[str]()
    for tag in TAG.finditer(RAW.sub(r"\1\3", text)):
        closes, name, attributes = tag.groups()
        if name is None:  # a comment
            continue
        name = name.lower()
        if closes:
            while opened and opened[-1] != name and opened[-1] in MAY_STAY_OPEN:
                opened.pop()
            if opened and opened[-1] == name:
                opened.pop()
            else:
                page.wrong.append(f"</{name}> inside <{opened[-1] if opened else ''}>")
            continue
        if name not in VOID and not attributes.endswith("/"):
            opened.append(name)
        for kind, value in NAME.findall(attributes):
            page.targets.add(value)
            page.ids[value] += kind == "id"
        if name in ("a", "link", "script", "img"):
            page.links += [(name, href.replace("&amp;", "&")) for href in ADDRESS.findall(attributes)[:1]]
    page.wrong += [f"<{name}> is not closed" for name in opened if name not in MAY_STAY_OPEN]
    return page


def test_the_reader_of_files_finds_what_is_wrong() -> None:
    page = read(
        '<p id="a"><a href="x?a&amp;b"><b id="a">1 < 2</i></a><script>"</div>"</script><img src="y"><div name="n">'
    )
    assert page.ids == {"a": 2, "n": 0}
    assert page.targets == {"a", "n"}
    assert page.links == [("a", "x?a&b"), ("img", "y")]
    assert page.wrong == [
        "</i> inside <b>",
        "</a> inside <b>",
        "<a> is not closed",
        "<b> is not closed",
        "<div> is not closed",
    ]


def test_the_site_has_every_page_of_the_repository_and_none_of_a_draft(site: Path) -> None:
    labs, finished = all_labs(drafts=True), [lab.slug for lab in all_labs()]
    sources = [*ROOT.glob("handbook/*.md"), *ROOT.glob("labs/lab-*.md"), *ROOT.glob("notebooks/lab-*.ipynb")]
    drafts = tuple(lab.slug for lab in labs if lab.draft)
    shown = [file for file in sources if not file.name.startswith(drafts)]
    assert [file for file in shown if not (site / f"{name_of(file)}.html").exists()] == []
    assert [file for file in sources if file not in shown and (site / f"{name_of(file)}.html").exists()] == []
    assert {file.stem for file in shown} >= set(finished)


def test_every_link_has_a_target(site: Path) -> None:
    files, broken = files_of(site), set()
    for file, page in files.items():
        for _, href in page.links:
            parts = urlsplit(href)
            if parts.scheme or not href or href == "#":
                continue
            target = Path(os.path.normpath(file.parent / unquote(parts.path))) if parts.path else file
            anchor = unquote(parts.fragment)
            if target not in files and not target.is_file():
                broken.add(f"{file.relative_to(site)}: {href}")
            elif target.name == "calculator.html" and "=" in anchor:
                continue  # a setting; test_calculator_links.py follows it
            elif anchor and target in files and anchor not in files[target].targets:
                broken.add(f"{file.relative_to(site)}: {href} (no such anchor)")
    assert not broken, "\n".join(sorted(broken)[:40])


def test_no_page_loads_files_from_the_network(site: Path) -> None:
    outside = [
        f"{file.relative_to(site)}: {href}"
        for file, page in files_of(site).items()
        for tag, href in page.links
        if tag != "a" and urlsplit(href).scheme not in ("", "data")
    ]
    sheets = [
        file for file in (site / "_static").rglob("*.css") if re.search(r"url\(.?(?:https?:)?//", file.read_text())
    ]
    assert not outside
    assert not sheets


def test_no_page_has_an_id_twice(site: Path) -> None:
    twice = {
        str(file.relative_to(site)): [name for name, count in page.ids.items() if count > 1]
        for file, page in files_of(site).items()
        if any(count > 1 for count in page.ids.values())
    }
    assert not twice


def test_every_tag_of_a_page_is_closed_in_its_place(site: Path) -> None:
    wrong = {str(file.relative_to(site)): page.wrong[:3] for file, page in files_of(site).items() if page.wrong}
    assert not wrong


# ---------------------------------------------------------------------------------------------------- pages that open
READ = {(name, 390) for name in [*KINDS.values(), *CHAPTERS, *LABS]} | {(name, 1440) for name in KINDS.values()}
OPENED = sorted({*READ, *((name, 390) for name in every_page())})


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "width"), sampled(OPENED, READ))
def test_a_page_loads_without_errors_and_does_not_scroll_sideways(
    site: Path, page: Page, name: str, width: int
) -> None:
    """The fixture `context` fails the test for errors, warnings and requests."""
    page.set_viewport_size({"width": width, "height": 844})
    page.goto((site / name).as_uri(), wait_until="load")
    assert page.evaluate(SIDEWAYS) <= 0


def test_the_pages_that_are_read_most_are_opened_each_time() -> None:
    assert READ <= set(OPENED)


@pytest.mark.parametrize("kind", sampled(KINDS, {"lab", "chapter", "reader", "annotated"}))
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


@pytest.mark.parametrize("name", sampled(READERS, {KINDS["reader"]}))
def test_code_fits_the_panes_of_the_reader(site: Path, page: Page, name: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto((site / name).as_uri())
    for tab in ("Lab", "Starter"):
        page.locator(".reader-bar-right").get_by_role("link", name=tab, exact=True).click()
        expect(page.locator(".reader-bar-right [aria-current=true]")).to_have_text(tab)
        assert page.evaluate(WIDE_CODE) == []


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


def test_an_address_without_a_page_shows_ways_to_the_pages(
    site: Path, new_context: Callable[..., BrowserContext]
) -> None:
    """A server shows 404.html at any address; the site's own address is unknown when the site is built."""
    context = new_context()

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


AXE_CASES = [(kind, width) for kind in KINDS for width in (1440, 390)]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("kind", "width"), sampled(AXE_CASES, {("lab", 390), ("chapter", 1440)}))
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
