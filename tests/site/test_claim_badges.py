"""Claims on the site: each link is a badge, each badge has a note, and the table of claims can be searched."""

import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import BrowserContext, Locator, Page, expect
from sphinx.application import Sphinx
from tiers import sampled

from rankzero.claims.claim import text_of
from rankzero.claims.registry import TABLE
from rankzero.claims.table import listed_claims
from rankzero.curriculum import ROOT
from rankzero.publish.site import npm_packages
from rankzero.publish.site.markdown.claim_badges import typeset
from rankzero.publish.site.markdown.typography import RAISED
from rankzero.publish.site.page_names import name_of
from rankzero.publish.site.views.claims_page import measurements, verdict
from rankzero.publish.sync import pages

CLAIMS = listed_claims()
SOURCES = [page for page in pages() if page != TABLE and "claims.md#" in page.read_text(encoding="utf-8")]
CHAPTER = "handbook/memory.html"
SAMPLE = {ROOT / "README.md", ROOT / "handbook/memory.md"}


def soup_of(site: Path, source: Path) -> BeautifulSoup:
    name = "index" if source == ROOT / "README.md" else name_of(source)
    return BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def squeezed(text: str) -> str:
    """Returns the text without spaces, with ASCII quotes and signs, and with raised digits as plain digits."""
    plain: dict[str, str | int | None] = {**RAISED, "“": '"', "”": '"', "‘": "'", "’": "'"}
    return re.sub(r"\s+|\^(?=-?\d)", "", text).translate(str.maketrans(plain)).replace("−", "-")


# ---- content of the pages


@pytest.mark.parametrize("source", sampled(SOURCES, SAMPLE), ids=[str(name_of(page)) for page in SOURCES])
def test_every_link_to_a_claim_is_a_badge_with_a_note(site: Path, source: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", source.read_text(encoding="utf-8"))  # links in code are examples
    slugs = re.findall(r"\]\([^)\s]*claims\.md#([\w-]+)\)", text)
    page = soup_of(site, source)
    badges = page.select("a.claim")
    assert [badge["data-claim"] for badge in badges] == slugs
    assert all(badge.get_text().strip() for badge in badges)
    assert all(str(badge["href"]).endswith(f"claims.html#{badge['data-claim']}") for badge in badges)
    assert {note["data-claim"] for note in page.select("template[data-claim]")} == set(slugs)


@pytest.mark.parametrize("source", sampled(SOURCES, SAMPLE), ids=[str(name_of(page)) for page in SOURCES])
def test_a_note_shows_claim_and_measurement(site: Path, source: Path) -> None:
    for note in soup_of(site, source).select("template[data-claim]"):
        slug = str(note["data-claim"])
        claim, measurement = CLAIMS[slug], measurements().get(slug)
        text = squeezed(note.get_text())
        parts = [claim.how.split("\n\n")[0].replace("`", ""), claim.unit, f"rankzero claims {slug}", verdict(slug)]
        parts += [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", claim.source.removesuffix("."))]
        if measurement:
            parts += [measurement.date, f"{measurement.seconds:.2f} s", measurement.machine, measurement.versions]
        else:
            parts += ["The measurement needs " + ", ".join(claim.needs), "not measured"]
        missing = [part for part in parts if squeezed(part) not in text]
        assert not missing, slug


@pytest.mark.prove
def test_every_claim_has_a_note(site: Path) -> None:
    noted = {str(note["data-claim"]) for page in SOURCES for note in soup_of(site, page).select("template[data-claim]")}
    assert noted == CLAIMS.keys()


def test_a_statement_has_superscripts_and_code_as_in_the_pages() -> None:
    assert typeset("2⁸ of `x < 1`, Lab 02's") == "2<sup>8</sup> of <code>x &lt; 1</code>, Lab 02’s"
    assert typeset("2^-24 or 10^-7.3, `a^2`.") == "2<sup>−24</sup> or 10<sup>−7.3</sup>, <code>a^2</code>."


def test_the_table_has_a_complete_row_for_each_claim(site: Path) -> None:
    page = soup_of(site, TABLE)
    rows = {str(row["id"]): row for row in page.select(".claim-row")}
    assert list(rows) == re.findall(r'<a id="([\w-]+)">', TABLE.read_text(encoding="utf-8"))
    for slug, row in rows.items():
        claim, measurement = CLAIMS[slug], measurements().get(slug)
        text = squeezed(row.get_text())
        assert squeezed(verdict(slug)) in text
        assert squeezed(slug) in text
        values = [claim.expected, *([measurement.measured] if measurement else [])]
        for value in values:
            numbers = value.items() if isinstance(value, dict) else [("", value)]
            for name, number in numbers:
                assert squeezed(name) in text, slug
                assert squeezed(text_of(number)) in text, slug
        assert squeezed(claim.unit) in text, slug
        assert (squeezed(f"{measurement.date}, {measurement.seconds:.2f} s") if measurement else "needs") in text


def test_each_row_links_to_the_function_that_measures_its_claim(site: Path) -> None:
    for row in soup_of(site, TABLE).select(".claim-row"):
        slug = str(row["id"])
        file, line = CLAIMS[slug].place
        link = row.select_one(".claim-proof a")
        assert link is not None
        assert str(link["href"]) == f"../source/{file.relative_to(ROOT)}.html#L{line}"
        assert f'"{slug}"' in "".join(file.read_text(encoding="utf-8").splitlines()[line - 1 : line + 3]), slug


@pytest.mark.prove
def test_a_link_to_an_unknown_claim_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "handbook").mkdir()
    shutil.copy(TABLE, tmp_path / "handbook")
    (tmp_path / "index.md").write_text("# A page\n\nIt takes [8 bytes](handbook/claims.md#no-such-claim).\n")
    warnings = io.StringIO()
    extensions = ["myst_parser", "rankzero.publish.site.markdown.claim_badges"]
    folders = [tmp_path, None, tmp_path / "out", tmp_path / "trees"]
    settings = {"extensions": extensions, "exclude_patterns": ["out"], "suppress_warnings": ["toc", "myst"]}
    app = Sphinx(*folders, "html", confoverrides=settings, status=None, warning=warnings)
    app.build()
    assert "index.md:3: WARNING: there is no claim 'no-such-claim'" in warnings.getvalue()


# ---- use of the notes


@pytest.fixture
def chapter(site: Path, page: Page) -> Page:
    """A chapter with many badges; its clock stands still between the test's steps, and its scrolling takes no time."""
    page.goto((site / CHAPTER).as_uri())
    page.clock.install()
    page.add_style_tag(content="html { scroll-behavior: auto !important }")
    return page


def badge_of(page: Page, place: int = 4) -> Locator:
    badge = page.locator("a.claim").nth(place)
    badge.evaluate("badge => badge.scrollIntoView({block: 'center', behavior: 'instant'})")
    return badge


def note_of(page: Page) -> Locator:
    return page.get_by_role("dialog")


def test_hovering_over_a_badge_shows_the_note_and_leaving_hides_it(chapter: Page) -> None:
    badge = badge_of(chapter)
    badge.hover()
    chapter.clock.run_for(200)
    note = note_of(chapter)
    expect(note).to_be_visible()
    expect(note).to_contain_text(f"rankzero claims {badge.get_attribute('data-claim')}")
    expect(badge).to_have_attribute("aria-expanded", "true")
    note.get_by_text("How it is measured").hover()  # the pointer can move from the badge to the note
    chapter.clock.run_for(1000)
    expect(note).to_be_visible()
    chapter.mouse.move(5, 5)
    chapter.clock.run_for(1000)
    expect(note).to_be_hidden()
    expect(badge).to_have_attribute("aria-expanded", "false")


def test_the_keyboard_opens_a_note_enters_it_and_returns_to_the_badge(chapter: Page) -> None:
    badge, note = badge_of(chapter), note_of(chapter)
    press = chapter.keyboard.press
    badge.focus()
    press("Shift+Tab")
    expect(note).to_be_hidden()
    press("Tab")
    expect(badge).to_be_focused()
    expect(note).to_be_visible()
    press("Tab")  # continues in the text
    expect(badge).to_have_attribute("aria-expanded", "false")
    press("Shift+Tab")
    press("Enter")
    expect(note).to_be_focused()
    press("Tab")
    expect(note.get_by_role("link", name="How it is measured")).to_be_focused()
    press("Escape")
    expect(note).to_be_hidden()
    expect(badge).to_be_focused()


@pytest.mark.prove
def test_tab_beyond_the_end_of_a_note_continues_in_the_text(chapter: Page) -> None:
    badge, note = badge_of(chapter), note_of(chapter)
    badge.focus()
    chapter.keyboard.press("Tab")
    following = chapter.evaluate_handle("document.activeElement")
    badge.focus()
    chapter.keyboard.press("Enter")
    for control in note.get_by_role("link").all() + note.get_by_role("button").all():
        chapter.keyboard.press("Tab")
        expect(control).to_be_focused()
    chapter.keyboard.press("Tab")
    assert following.evaluate("element => element === document.activeElement")
    badge.focus()
    chapter.keyboard.press("Enter")
    chapter.keyboard.press("Shift+Tab")
    expect(badge).to_be_focused()
    expect(note).to_be_hidden()


def test_a_screen_reader_gets_the_verdict_and_the_statement(chapter: Page) -> None:
    badge = badge_of(chapter)
    expect(badge).to_have_attribute("aria-haspopup", "dialog")
    expect(badge).to_have_accessible_description("A claim that holds.")
    badge.click()
    expect(note_of(chapter)).to_be_focused()
    statement = chapter.locator(".claim-note .claim-statement").inner_text()
    expect(note_of(chapter)).to_have_accessible_name(statement)


def test_a_click_keeps_the_note_open_until_a_click_elsewhere(chapter: Page) -> None:
    badge, note = badge_of(chapter), note_of(chapter)
    badge.click()
    chapter.mouse.move(5, 5)
    chapter.clock.run_for(1000)
    expect(note).to_be_visible()
    chapter.mouse.click(700, 890)
    expect(note).to_be_hidden()


def test_the_command_is_copied(chapter: Page) -> None:
    badge = badge_of(chapter)
    badge.click()
    note_of(chapter).get_by_role("button", name="Copy").click()
    expect(note_of(chapter).get_by_role("status")).to_have_text(re.compile("Copied|Selected"))


@pytest.mark.parametrize("theme", sampled(["light", "dark"], ["light"]))
def test_axe_finds_no_violation_in_a_note(site: Path, page: Page, theme: str) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    page.goto((site / "labs/lab-02-single-gpu-training.html").as_uri())
    page.add_script_tag(path=npm_packages.path("axe-core/axe.min.js"))
    kinds = [kind for kind in ("holds", "not-measured") if page.locator(f"a.claim.{kind}").count()]
    assert "holds" in kinds
    for kind in kinds:
        page.locator(f"a.claim.{kind}").first.click()
        expect(note_of(page)).to_be_visible()
        violations = page.evaluate("axe.run('.claim-note', {preload: false})")["violations"]
        assert [f"{violation['id']}: {violation['nodes'][0]['html']}" for violation in violations] == []
        page.keyboard.press("Escape")


@pytest.mark.parametrize(("width", "height"), sampled([(1440, 900), (1024, 600), (390, 844)], [(390, 844)]))
def test_every_note_fits_the_window(chapter: Page, width: int, height: int) -> None:
    chapter.set_viewport_size({"width": width, "height": height})
    chapter.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    count = chapter.locator("a.claim").count()
    for place in range(0, count, -(-count // 8)):
        badge_of(chapter, place).evaluate("badge => badge.click()")
        box = note_of(chapter).bounding_box()
        assert box is not None
        inside = box["x"] >= 0, box["x"] + box["width"] <= width, box["y"] >= 0, box["y"] + box["height"] <= height
        assert all(inside), place
        chapter.keyboard.press("Escape")


def test_a_tap_opens_a_sheet_on_a_phone(site: Path, new_context: Callable[..., BrowserContext]) -> None:
    context = new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto((site / CHAPTER).as_uri())
    badge, note = badge_of(page, 2), note_of(page)
    badge.tap()
    expect(note).to_be_visible()
    assert page.url.endswith(CHAPTER), "the tap followed the link"
    sheet, number = note.bounding_box(), badge.bounding_box()
    assert sheet is not None
    assert number is not None
    assert (sheet["x"], sheet["width"]) == (0, 390)
    assert sheet["y"] >= number["y"] + number["height"], "the sheet hides the number"
    note.get_by_role("button", name="Close").tap()
    expect(note).to_be_hidden()
    badge.tap()
    expect(note).to_be_visible()
    badge.tap()
    expect(note).to_be_hidden()


def test_without_scripts_a_badge_links_to_its_row(site: Path, new_context: Callable[..., BrowserContext]) -> None:
    context = new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / CHAPTER).as_uri())
    slug = page.locator("a.claim").first.get_attribute("data-claim")
    page.locator("a.claim").first.click()
    expect(page).to_have_url(f"{(site / 'handbook/claims.html').as_uri()}#{slug}")
    expect(page.locator(f"#{slug}")).to_be_visible()


# ---- the table


@pytest.fixture
def table(site: Path, page: Page) -> Page:
    page.goto((site / "handbook/claims.html").as_uri())
    return page


def test_a_link_to_a_row_scrolls_to_it_and_marks_it(site: Path, page: Page) -> None:
    page.goto((site / "handbook/claims.html").as_uri() + "#seven-billion")
    row = page.locator("#seven-billion")
    expect(row).to_be_in_viewport(ratio=1)
    other = page.locator(".claim-row").first
    color = "row => getComputedStyle(row).backgroundColor"
    expect(row).not_to_have_css("background-color", other.evaluate(color))
    filter_bar = page.locator(".claims-filter").bounding_box()
    box = row.bounding_box()
    assert filter_bar is not None
    assert box is not None
    assert box["y"] >= filter_bar["y"] + filter_bar["height"] - 1, "the filter hides the row"


def test_the_table_is_filtered_by_words_verdict_and_page(table: Page) -> None:
    shown = table.locator(".claim-row:visible")
    count = table.locator(".claims-filter output")
    expect(count).to_have_text(f"{len(CLAIMS)} claims")
    table.get_by_label("Words, name or number").fill("ZERO ranks")
    both = [row for row in table.locator(".claim-row").all_text_contents() if "zero" in row.lower() and "ranks" in row]
    expect(shown).to_have_count(len(both))
    expect(count).to_have_text(f"{len(both)} of {len(CLAIMS)} claims")
    table.get_by_role("button", name="Clear").click()
    expect(shown).to_have_count(len(CLAIMS))
    table.get_by_label("Verdict").select_option("holds")
    expect(shown).to_have_count(sum(verdict(slug) == "holds" for slug in CLAIMS))
    table.get_by_label("Verdict").select_option("all")
    table.get_by_label("Page", exact=True).select_option("Memory")
    expect(shown).to_have_count(sum(claim.page == "handbook/memory.md" for claim in CLAIMS.values()))
    expect(table.get_by_role("heading", level=2)).to_have_count(1)
    table.get_by_label("Words, name or number").fill("no such words anywhere")
    expect(shown).to_have_count(0)
    expect(count).to_have_text(f"0 of {len(CLAIMS)} claims")


@pytest.mark.prove
def test_a_link_to_a_filtered_out_row_shows_the_row(table: Page) -> None:
    table.get_by_label("Page", exact=True).select_option("Memory")
    expect(table.locator("#two-linears-are-one")).to_be_hidden()
    table.evaluate("location.hash = 'two-linears-are-one'")
    expect(table.locator("#two-linears-are-one")).to_be_in_viewport()
    expect(table.get_by_label("Page", exact=True)).to_have_value("")


def test_on_a_phone_each_claim_is_a_card(table: Page) -> None:
    table.set_viewport_size({"width": 390, "height": 844})
    row = table.locator("#seven-billion")
    row.scroll_into_view_if_needed()
    assert row.evaluate("row => getComputedStyle(row).display") == "grid"
    for cell in row.locator("td").all():
        box = cell.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    assert table.evaluate("document.documentElement.scrollWidth") == 390
