"""Annotated source, the pages of other files, and the links to their lines."""

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Page, expect
from tiers import sampled

from rankzero.curriculum import ROOT, Lab, all_labs, find_lab
from rankzero.publish.site import page_names
from rankzero.publish.site.markdown.line_tables import TITLE
from rankzero.publish.site.source import source_pages
from rankzero.publish.site.source.docstring_html import prose
from rankzero.publish.site.source.source_parser import spans, take_apart

LABS, LAB_02 = all_labs(), find_lab("02")
PAGES = sorted([*(lab.page for lab in LABS), *ROOT.glob("handbook/*.md")])
SCRIPTS = sorted(source_pages.annotated())
STEP = "source/code/lab-02-single-gpu-training/train_single_gpu.py.html"

# First cells of tables of lines that have no link, and the reasons.
NOT_LINKED = {"outside the block": "names a place where a line is absent"}


@lru_cache(maxsize=8)
def soup_of(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def squeezed(text: str) -> str:
    """Returns the letters and signs of a text, without spaces, backquotes and typographic quotes."""
    return re.sub(r"[\s`]", "", text).translate({ord("“"): '"', ord("”"): '"', ord("’"): "'"})


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_the_parser_keeps_each_line_of_a_file(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    whole = take_apart(source)
    section_lines = {section.line for section in whole.sections}
    text_by_line: dict[int, str] = dict.fromkeys([*whole.blank, *filter(None, section_lines)], "")
    notes: dict[int, str] = {}
    for number, text in whole.docstring.lines if whole.docstring else ():
        text_by_line[number] = text
    for row in (row for region in whole.regions for row in region.rows):
        for number, text in row.lines:
            assert number not in text_by_line
            text_by_line[number] = text
        for comment in row.words:
            for number, text in comment.lines:
                kept = notes if comment.kind == "note" else text_by_line
                assert number not in kept
                kept[number] = text
    for number, line in enumerate(source.splitlines(), start=1):
        assert number in section_lines or text_by_line[number] + notes.get(number, "") == line
    assert [first for _, first, _ in spans(source)[1:]] == [last + 1 for _, _, last in spans(source)[:-1]]
    assert spans(source)[-1][2] == len(source.splitlines())


@pytest.mark.parametrize("file", sampled(SCRIPTS, {LAB_02.starter}), ids=lambda file: file.name)
def test_a_page_shows_each_line_of_its_file(file: Path, site: Path) -> None:
    soup = soup_of(site / f"{page_names.source_page(file)}.html")
    ids = Counter(str(tag["id"]) for tag in soup.find_all(id=True))
    assert [name for name, count in ids.items() if count > 1] == []
    shown = squeezed(soup.find("article").get_text().replace('"""', ""))
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        assert ids[f"L{number}"] == 1
        if not line.startswith("# ---"):
            code, _, comment = line.partition("  # ")
            for part in (code, comment):
                text = squeezed(part.strip().removeprefix("#").replace('"""', ""))
                assert text in shown, f"line {number}: {part}"


def test_docstrings_get_typographic_quotes_and_code_marks() -> None:
    assert prose("A rank's `x's`, `y`'s own") == "A rank’s <code>x's</code>, <code>y</code>’s own"
    assert prose('"loop" ("both"), [B, T] < 1') == "“loop” (“both”), <code>[B, T]</code> &lt; 1"


def test_a_long_comment_stands_beside_its_line() -> None:
    source = '''def f(x: int) -> int:
    """Doubles."""
    y = 1
    z = 2

    x = x + x  # a sentence that is long enough to be moved beside its line
    y = x  # a label
    return x  # another sentence that is long enough to be moved, and so has a row of its own
'''
    region = next(take_apart(source).regions)
    assert [[number for number, _ in row.lines] for row in region.rows] == [[1, 3, 4, 5], [6, 7], [8]]
    assert region.rows[1].lines == [(6, "    x = x + x"), (7, "    y = x  # a label")]
    assert region.rows[0].words[0].kind == "docstring"


def rows_of(lab: Lab, site: Path) -> list[Tag]:
    soup = soup_of(site / f"{page_names.name_of(lab.page)}.html")
    heading = next(tag for tag in soup.find_all("h2") if tag.get_text().startswith(TITLE))
    return list(heading.parent.find("tbody").find_all("tr"))


@pytest.mark.parametrize("lab", sampled(LABS, {LAB_02}), ids=lambda lab: lab.slug)
def test_every_row_of_a_table_of_lines_links_to_its_line(lab: Lab, site: Path) -> None:
    page = site / f"{page_names.name_of(lab.page)}.html"
    for row in rows_of(lab, site):
        cell = row.find("td")
        links = cell.find_all("a")
        assert links or cell.get_text() in NOT_LINKED, cell.get_text()
        for link in links:
            target, _, line = str(link["href"]).partition("#")
            shown = soup_of((page.parent / target).resolve()).find(id=line).get_text()
            name = re.match(r"[\w.]*\w|\W+", link.get_text().lstrip(".("))
            assert name
            assert name[0] in shown, (link.get_text(), shown)


@pytest.mark.parametrize("page", sampled(PAGES, {LAB_02.page}), ids=lambda page: page.stem)
def test_an_excerpt_names_its_file(page: Path, site: Path) -> None:
    specs = re.findall(r"<!-- excerpt: (\S+)", page.read_text(encoding="utf-8"))
    file_names = [Path(spec.split("#")[0]).name for spec in specs]
    built = site / f"{page_names.name_of(page)}.html"
    captions = soup_of(built).select(".excerpt-from")
    assert [caption.find("code").get_text() for caption in captions] == file_names
    for link in (link for caption in captions for link in caption.find_all("a")):
        target, _, name = str(link["href"]).partition("#")
        assert not name or soup_of((built.parent / target).resolve()).find(id=name), link["href"]


def test_the_page_of_a_folder_links_to_its_files(site: Path) -> None:
    folder = site / "source/tests/attacks.html"
    links = soup_of(folder).select(".folder a")
    assert len(links) >= len(list((ROOT / "tests/attacks").iterdir())) - 1  # without __pycache__
    assert all((folder.parent / str(link["href"])).exists() for link in links)


def test_a_link_of_the_table_of_lines_scrolls_to_the_line_and_marks_it(page: Page, site: Path) -> None:
    page.goto((site / "labs/lab-02-single-gpu-training.html").as_uri())
    page.get_by_role("link", name="loss.backward()", exact=True).first.click()
    line = page.locator(".line:target")
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text("loss.backward()")
    other = page.locator(".line:not(:target)").first
    color = "element => getComputedStyle(element).backgroundColor"
    expect(line).not_to_have_css("background-color", other.evaluate(color))


def test_comments_stand_beside_their_code_and_above_it_on_a_phone(page: Page, site: Path) -> None:
    page.goto((site / STEP).as_uri())
    row = page.locator("#train_step .row").nth(1)
    comment, code = row.locator(".words").bounding_box(), row.locator("pre").bounding_box()
    assert comment
    assert code
    assert comment["x"] + comment["width"] <= code["x"]
    assert abs(comment["y"] - code["y"]) < 8
    page.set_viewport_size({"width": 390, "height": 844})
    comment, code = row.locator(".words").bounding_box(), row.locator("pre").bounding_box()
    assert comment
    assert code
    assert comment["y"] + comment["height"] <= code["y"] + 1


@pytest.mark.parametrize("lab", sampled(LABS, {LAB_02}), ids=lambda lab: lab.slug)
def test_the_table_of_lines_fits_a_phone(lab: Lab, page: Page, site: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / f"{page_names.name_of(lab.page)}.html").as_uri())
    table = page.locator("#line-by-line-explanation .table-wrapper")
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") <= 1


@pytest.mark.parametrize(
    "name",
    [
        STEP,
        "source/code/rankzero/learn/models/gpt.py.html",
        "source/tests/attacks.html",
        "source/code/lab-02-single-gpu-training/never-clear.diff.html",
        "diffs/lab-02-to-lab-03.html",
    ],
)
def test_long_lines_scroll_inside_their_box(name: str, page: Page, site: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / name).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(
        "document.querySelector('.content').scrollWidth <= document.querySelector('.content').clientWidth"
    )


def test_all_line_numbers_together_are_one_stop_of_the_tab_key(page: Page, site: Path) -> None:
    page.goto((site / "source/code/rankzero/learn/models/gpt.py.html").as_uri())
    assert page.locator("a.linenos[tabindex='0']").count() == 1
    page.locator("a.linenos").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    expect(page.locator("a.linenos:focus")).to_have_text("2")
    page.keyboard.press("Enter")
    expect(page.locator(".line:target")).to_have_id("L2")


PAIRS = list(pairwise(LABS))


@pytest.mark.parametrize(("before", "after"), sampled(PAIRS, PAIRS[:2]))
def test_the_page_of_a_starter_links_to_the_next_starter(site: Path, before: Lab, after: Lab) -> None:
    page = site / f"{page_names.source_page(before.starter)}.html"
    hrefs = {(page.parent / str(link["href"])).resolve() for link in soup_of(page).select(".starters a")}
    assert (site / f"{page_names.source_page(after.starter)}.html").resolve() in hrefs
