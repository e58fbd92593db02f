"""Side-by-side reader: a chapter and a lab in two panes. test_pages.py checks its links."""

from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from painted_pages import wait_until_painted
from playwright.sync_api import Locator, Page, expect
from tiers import sampled

from rankzero.curriculum import all_labs
from rankzero.publish.site.page_names import side_by_side_page
from rankzero.publish.site.views.embedded_page import Place, lead, take

READERS = [side_by_side_page(lab, chapter) for lab in all_labs() for chapter in lab.chapters]
FIRST = "read/lab-02-training-loop"
PHONE = {"width": 390, "height": 844}

PAGE = """<html><body><p id="outside"></p><article role="main">
<h1>Memory<a href="#memory">#</a></h1><div class="lab-links"><a href="../read/x.html">Read beside</a></div>
<p id="sums"><a href="#sums">here</a> <a href="#outside">around the page</a> <a href="claims.html#bytes">4</a>
<a href="../labs/lab-01.html#exercises">exercises</a> <a href="../labs/lab-01.html">lab</a>
<a href="memory.html">top</a> <a href="how-to-read.html#units">units</a>
<a href="https://example.org/a#sums">far</a> <img src="../_images/a.png"></p>
<button class="claim" data-claim="bytes" popovertarget="note" aria-describedby="note sums elsewhere">b</button>
<div popover id="note">x &lt; y</div><details name="one" id="memory"></details>
<svg><use href="#outside"></use><use href="#note"></use><path fill="url(#note)"></path></svg>
</article></body></html>"""


@cache
def soup(file: Path) -> BeautifulSoup:
    """Returns a parsed page of the site."""
    return BeautifulSoup(file.read_text(encoding="utf-8"), "html.parser")


def test_a_pane_renames_its_ids_and_rewrites_its_links() -> None:
    places = {
        "handbook/memory.html": Place("read/one.html", "c-", "chapter"),
        "labs/lab-01.html": Place("read/one.html", "", "lab"),
        "handbook/claims.html": Place("read/two.html", "c-", "chapter"),
    }
    pane = BeautifulSoup(lead(take(PAGE, "handbook/memory", "c-"), "read/one.html", places), "html.parser")
    assert [tag["id"] for tag in pane.find_all(id=True)] == ["c-sums", "c-note", "c-memory"]
    assert {tag.text: tag["href"] for tag in pane.find_all("a")} == {
        "#": "#c-memory",
        "here": "#c-sums",
        "around the page": "#outside",
        "4": "two.html#c-bytes",
        "exercises": "#exercises",
        "lab": "#lab",
        "top": "#chapter",
        "units": "../handbook/how-to-read.html#units",
        "far": "https://example.org/a#sums",
    }
    button = pane.button.attrs
    assert button["class"] == ["claim"]
    assert button["data-claim"] == "bytes"
    assert button["popovertarget"] == "c-note"
    assert button["aria-describedby"] == "c-note c-sums elsewhere"
    assert pane.details["name"] == "c-one"
    assert pane.img["src"] == "../_images/a.png"
    assert [tag["href"] for tag in pane.find_all("use")] == ["#outside", "#c-note"]
    assert pane.path["fill"] == "url(#c-note)"
    assert "x &lt; y" in str(pane)


@pytest.mark.parametrize("name", sampled(READERS, {FIRST}))
def test_every_id_that_an_attribute_names_exists(site: Path, name: str) -> None:
    page = soup(site / f"{name}.html")
    ids = {tag["id"] for tag in page.find_all(id=True)}
    for attribute in ("aria-controls", "aria-describedby", "aria-labelledby", "aria-details", "popovertarget", "for"):
        for tag in page.select(f".reader [{attribute}]"):
            value = tag[attribute]
            assert set(value.split() if isinstance(value, str) else value) <= ids, tag


def test_a_lab_and_a_chapter_link_to_the_reader(site: Path, page: Page) -> None:
    page.goto(f"{site.as_uri()}/labs/lab-02-single-gpu-training.html")
    parts = page.get_by_role("navigation", name="Parts of this lab").get_by_role("link")
    expect(parts).to_have_text(["Chapter", "Starter", "Exercises", "Notebook", "Solution"])
    page.get_by_text("Read beside the chapter").get_by_role("link", name="Loss functions").click()
    wait_for_page(page, "read/lab-02-loss-functions.html")
    page.goto(f"{site.as_uri()}/handbook/forward-pass.html")
    page.get_by_text("Read beside").get_by_role("link", name="Lab 05").click()
    wait_for_page(page, "read/lab-05-forward-pass.html")
    expect(page.get_by_role("region", name="Chapter: Forward pass")).to_be_visible()
    expect(page.get_by_role("region", name="Lab 05")).to_be_visible()
    expect(page.locator(".reader .lab-links")).to_have_count(0)


# --- Wide window


@pytest.fixture
def reader(site: Path, page: Page) -> Page:
    """A reader in a wide window."""
    page.goto(f"{site.as_uri()}/{FIRST}.html")
    return page


def panes(page: Page) -> tuple[Locator, Locator]:
    """Returns the chapter's pane and the lab's pane."""
    return page.get_by_role("region", name="Chapter: "), page.get_by_role("region", name="Lab 0")


def wait_for_page(page: Page, address: str) -> None:
    """Waits until a click has opened the page at this address, with all that it loads."""
    page.wait_for_url(f"**/{address}*")
    page.wait_for_load_state()
    wait_until_painted(page)


def scroll_position(pane: Locator) -> int:
    """Returns the distance in pixels by which the pane is scrolled."""
    return int(pane.evaluate("pane => Math.round(pane.scrollTop)"))


def wait_until_visible(pane: Locator, part: Locator) -> None:
    """Waits until the part's beginning is in the visible area of the pane."""
    top = int(pane.evaluate("pane => pane.getBoundingClientRect().top"))
    handle = part.element_handle()
    pane.page.wait_for_function(
        "([part, top]) => part.getBoundingClientRect().top >= top - 2 && part.getBoundingClientRect().top < top + 200",
        arg=[handle, top],
    )


def tab(page: Page, name: str) -> Locator:
    """Returns a link above the right pane."""
    return page.get_by_role("navigation", name="Lab 02").get_by_role("link", name=name, exact=True)


def test_two_panes_share_the_window_and_scroll_independently(reader: Page) -> None:
    left, right = panes(reader)
    boxes = [pane.bounding_box() for pane in (left, right)]
    assert boxes[0]
    assert boxes[1]
    assert min(boxes[0]["width"], boxes[1]["width"]) > 680
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["y"] + boxes[0]["height"] == 900
    right.focus()
    reader.keyboard.press("PageDown")
    reader.wait_for_function("() => document.querySelector('#reader-right').scrollTop > 300")
    assert scroll_position(left) == 0
    assert reader.evaluate("document.documentElement.scrollTop + document.body.scrollTop") == 0
    assert reader.evaluate("document.documentElement.scrollWidth") == 1440


def test_lines_of_text_have_a_readable_width_and_code_scrolls_inside_its_box(reader: Page) -> None:
    widest = "parts => Math.max(...parts.map(part => part.getBoundingClientRect().width))"
    assert 480 < reader.locator(".reader-panel:not([hidden]) > section > p:not([class])").evaluate_all(widest) < 620
    for pane in panes(reader):
        assert pane.evaluate("pane => pane.scrollWidth - pane.clientWidth") == 0


def test_topic_lab_starter_and_exercises_are_one_click_apart(reader: Page) -> None:
    left, right = panes(reader)
    expect(tab(reader, "Lab")).to_have_attribute("aria-current", "true")
    tab(reader, "Exercises").click()
    wait_until_visible(right, right.get_by_role("heading", name="Exercises"))
    expect(tab(reader, "Exercises")).to_have_attribute("aria-current", "true")
    tab(reader, "Starter").click()
    wait_until_visible(right, right.get_by_role("heading", name="train_single_gpu.py"))
    expect(reader.locator("#lab")).to_be_hidden()
    expect(tab(reader, "Starter")).to_have_attribute("aria-current", "true")
    assert scroll_position(right) < 20  # the starter begins at the top of the pane
    tab(reader, "Lab").click()
    wait_until_visible(right, right.get_by_role("heading", name="Lab 02:"))
    expect(reader.locator("#starter")).to_be_hidden()
    topics = reader.get_by_role("navigation", name="Chapters of Lab 02").get_by_role("link")
    expect(topics.first).to_have_attribute("aria-current", "page")
    topics.filter(has_text="Backpropagation").click()
    wait_for_page(reader, "read/lab-02-backpropagation.html")
    expect(left.get_by_role("heading", name="Backpropagation", level=1)).to_be_visible()


@pytest.mark.prove
def test_another_chapter_keeps_the_place_in_the_lab(reader: Page) -> None:
    tab(reader, "Exercises").click()
    reader.get_by_role("navigation", name="Chapters of Lab 02").get_by_role("link", name="Loss functions").click()
    wait_for_page(reader, "read/lab-02-loss-functions.html")
    left, right = panes(reader)
    wait_until_visible(right, right.get_by_role("heading", name="Exercises"))
    assert scroll_position(left) == 0


def test_a_link_in_one_pane_moves_the_other_pane(reader: Page) -> None:
    left, right = panes(reader)
    left.get_by_role("link", name="starter of Lab 02").click()
    wait_until_visible(right, right.get_by_role("heading", name="train_single_gpu.py"))
    left.get_by_role("heading", name="Quiz").scroll_into_view_if_needed()
    tab(reader, "Lab").click()
    right.get_by_role("link", name="Training loop").first.click()
    wait_until_visible(left, left.get_by_role("heading", name="Training loop", level=1))
    assert f"{FIRST}.html" in reader.url


def test_a_link_to_the_starter_opens_the_starter_and_back_returns_to_the_lab(reader: Page) -> None:
    right = panes(reader)[1]
    link = right.get_by_role("link", name="train_single_gpu.py").first
    link.click()
    expect(reader.locator("#lab")).to_be_hidden()
    wait_until_visible(right, right.get_by_role("heading", name="train_single_gpu.py"))
    reader.go_back()
    expect(reader.locator("#starter")).to_be_hidden()
    expect(link).to_be_in_viewport()


def test_an_address_with_an_anchor_of_the_starter_opens_the_starter_there(site: Path, page: Page) -> None:
    anchors = [tag["id"] for tag in soup(site / f"{FIRST}.html").select("#starter section[id]")]
    anchor = anchors[len(anchors) // 2]
    page.goto(f"{site.as_uri()}/{FIRST}.html#{anchor}")
    expect(page.locator("#lab")).to_be_hidden()
    wait_until_visible(panes(page)[1], page.locator(f'[id="{anchor}"]'))


def test_going_back_and_reloading_restore_both_places(reader: Page) -> None:
    left, right = panes(reader)
    quiz, break_it = left.get_by_role("heading", name="Quiz"), right.get_by_role("heading", name="Break It")
    for heading in (quiz, break_it):
        heading.evaluate("heading => heading.scrollIntoView()")
    reader.wait_for_function("() => history.state?.reader.left.above > 50 && history.state.reader.right.above > 50")

    def expect_both_places() -> None:
        wait_until_visible(left, quiz)
        wait_until_visible(right, break_it)

    reader.reload()
    expect_both_places()
    tab(reader, "Notebook").click()
    wait_for_page(reader, "notebooks/lab-02-single-gpu-training.html")
    reader.go_back()
    expect_both_places()
    tab(reader, "Starter").click()
    expect(break_it).to_be_hidden()
    reader.go_back()
    expect_both_places()


def test_an_address_with_an_anchor_opens_the_right_pane_there(site: Path, page: Page) -> None:
    page.goto(f"{site.as_uri()}/{FIRST}.html#exercises")
    left, right = panes(page)
    wait_until_visible(right, right.get_by_role("heading", name="Exercises"))
    assert scroll_position(left) == 0


@pytest.mark.prove
def test_keyboard_and_mouse_move_the_divider_and_its_place_is_stored(reader: Page) -> None:
    left = panes(reader)[0]
    width = "pane => pane.getBoundingClientRect().width"
    before = left.evaluate(width)
    divider = reader.get_by_role("separator", name="Width of the chapter")
    divider.focus()
    for _ in range(3):
        reader.keyboard.press("ArrowLeft")
    expect(divider).to_have_attribute("aria-valuenow", "44")
    assert before - left.evaluate(width) == pytest.approx(0.06 * 1428, abs=2)  # laid out with the value
    reader.keyboard.press("Home")
    reader.keyboard.press("ArrowLeft")
    expect(divider).to_have_attribute("aria-valuenow", "25")
    reader.reload()
    expect(divider).to_have_attribute("aria-valuenow", "25")
    box = divider.bounding_box()
    assert box
    reader.mouse.move(box["x"] + 5, 300)
    reader.mouse.down()
    reader.mouse.move(864, 320)
    reader.mouse.up()
    expect(divider).to_have_attribute("aria-valuenow", "60")
    reader.mouse.move(300, 320)
    expect(divider).to_have_attribute("aria-valuenow", "60")
    divider.press("Enter")
    expect(divider).to_have_attribute("aria-valuenow", "50")


def test_keys_move_the_focus_between_the_panes_and_to_the_map(reader: Page) -> None:
    left, right = panes(reader)
    left.focus()
    reader.keyboard.press("F6")
    expect(right).to_be_focused()
    reader.keyboard.press("F6")
    expect(left).to_be_focused()
    button = reader.get_by_role("button", name="Map")
    site_map = reader.get_by_role("navigation", name="Site")
    expect(site_map).to_be_hidden()
    button.press("Enter")
    expect(site_map).to_be_in_viewport()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(site_map.locator("[aria-current]")).to_be_focused()
    reader.keyboard.press("Escape")
    expect(site_map).to_be_hidden()
    expect(button).to_be_focused()


@pytest.mark.prove
def test_the_reader_works_in_a_browser_without_storage(site: Path, page: Page) -> None:
    page.add_init_script(
        "for (const name of ['getItem', 'setItem']) { const plain = Storage.prototype[name];"
        "Storage.prototype[name] = function (key, value) {"
        "if (key.startsWith('rankzero-')) throw new Error('no'); return plain.call(this, key, value); }; }"
    )
    page.goto(f"{site.as_uri()}/{FIRST}.html")
    divider = page.get_by_role("separator", name="Width of the chapter")
    divider.press("ArrowRight")
    expect(divider).to_have_attribute("aria-valuenow", "52")
    page.get_by_role("navigation", name="Chapters of Lab 02").get_by_role("link", name="Forward pass").click()
    wait_for_page(page, "read/lab-02-forward-pass.html")
    expect(page.get_by_role("region", name="Chapter: Forward pass")).to_be_visible()


# --- Phone and print


@pytest.fixture
def phone(site: Path, page: Page) -> Page:
    """A reader on a phone."""
    page.set_viewport_size(PHONE)
    page.goto(f"{site.as_uri()}/{FIRST}.html")
    return page


def test_a_narrow_window_stacks_chapter_lab_and_starter(phone: Page) -> None:
    left, right = panes(phone)
    chapter, lab = left.bounding_box(), right.bounding_box()
    assert chapter
    assert lab
    assert lab["y"] >= chapter["y"] + chapter["height"]
    expect(phone.get_by_role("separator", name="Width of the chapter")).to_be_hidden()
    expect(tab(phone, "Chapter")).to_have_attribute("aria-current", "true")
    for name, part in (
        ("Exercises", "#exercises > h2"),
        ("Starter", "#starter"),
        ("Lab", "#lab"),
        ("Chapter", "#chapter"),
    ):
        tab(phone, name).click()
        expect(tab(phone, name)).to_have_attribute("aria-current", "true")
        expect(tab(phone, name)).to_be_in_viewport()
        top = phone.locator(part).evaluate("part => part.getBoundingClientRect().top")
        assert 40 <= top < 220, name  # below the sticky bar
    phone.locator("#starter .lead, #starter h1").last.scroll_into_view_if_needed()
    phone.mouse.wheel(0, 600)
    expect(tab(phone, "Starter")).to_have_attribute("aria-current", "true")


def test_print_has_the_chapter_and_then_the_lab(reader: Page) -> None:
    tab(reader, "Starter").click()
    reader.emulate_media(media="print")
    expect(reader.locator("#chapter")).to_be_visible()
    expect(reader.locator("#lab")).to_be_visible()
    expect(reader.locator("#starter")).to_be_hidden()
    expect(reader.locator(".reader-bar").first).to_be_hidden()
    assert reader.evaluate("document.documentElement.scrollHeight") > 5000
