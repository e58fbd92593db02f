"""The reader: what it is made of, and what somebody does in it. That its links lead somewhere, test_pages.py checks."""

from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Locator, Page, expect

from rankzero.curriculum import all_labs
from rankzero.publish.site.page_names import side_by_side_page
from rankzero.publish.site.views.embedded_page import Place, lead, take

READERS = [side_by_side_page(lab, chapter) for lab in all_labs() for chapter in lab.chapters]
FIRST = "read/lab-02-training-loop"
PHONE = {"width": 390, "height": 844}

WRITTEN = """<html><body><p id="outside"></p><article role="main">
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
    """A page of the site."""
    return BeautifulSoup(file.read_text(encoding="utf-8"), "html.parser")


def test_a_pane_renames_its_ids_and_leads_its_links_on() -> None:
    places = {
        "handbook/memory.html": Place("read/one.html", "c-", "chapter"),
        "labs/lab-01.html": Place("read/one.html", "", "lab"),
        "handbook/claims.html": Place("read/two.html", "c-", "chapter"),
    }
    pane = BeautifulSoup(lead(take(WRITTEN, "handbook/memory", "c-"), "read/one.html", places), "html.parser")
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


@pytest.mark.parametrize("name", READERS)
def test_what_an_attribute_names_is_there(site: Path, name: str) -> None:
    page = soup(site / f"{name}.html")
    here = {tag["id"] for tag in page.find_all(id=True)}
    for attribute in ("aria-controls", "aria-describedby", "aria-labelledby", "aria-details", "popovertarget", "for"):
        for tag in page.select(f".reader [{attribute}]"):
            value = tag[attribute]
            assert set(value.split() if isinstance(value, str) else value) <= here, tag


def test_a_lab_and_a_chapter_lead_to_the_reader(site: Path, page: Page) -> None:
    page.goto(f"{site.as_uri()}/labs/lab-02-single-gpu-training.html")
    parts = page.get_by_role("navigation", name="What belongs to this lab").get_by_role("link")
    expect(parts).to_have_text(["Chapter", "Starter", "Exercises", "Notebook", "Solution"])
    page.get_by_text("Read beside the chapter").get_by_role("link", name="Loss functions").click()
    arrived(page, "read/lab-02-loss-functions.html")
    page.goto(f"{site.as_uri()}/handbook/forward-pass.html")
    page.get_by_text("Read beside").get_by_role("link", name="Lab 05").click()
    arrived(page, "read/lab-05-forward-pass.html")
    expect(page.get_by_role("region", name="Chapter: Forward pass")).to_be_visible()
    expect(page.get_by_role("region", name="Lab 05")).to_be_visible()
    expect(page.locator(".reader .lab-links")).to_have_count(0)


# --- A wide window.


@pytest.fixture
def reader(site: Path, page: Page) -> Page:
    """A reader in a wide window."""
    page.goto(f"{site.as_uri()}/{FIRST}.html")
    return page


def panes(page: Page) -> tuple[Locator, Locator]:
    """The chapter's and the lab's."""
    return page.get_by_role("region", name="Chapter: "), page.get_by_role("region", name="Lab 0")


def arrived(page: Page, at: str) -> None:
    """Waits for a page that a click leads to, with all that it loads."""
    page.wait_for_url(f"**/{at}*")
    page.wait_for_load_state()


def scrolled(pane: Locator) -> int:
    """How far, in pixels."""
    return int(pane.evaluate("pane => Math.round(pane.scrollTop)"))


def in_view(pane: Locator, part: Locator) -> None:
    """Waits until the part begins in what one sees of the pane."""
    top = int(pane.evaluate("pane => pane.getBoundingClientRect().top"))
    handle = part.element_handle()
    pane.page.wait_for_function(
        "([part, top]) => part.getBoundingClientRect().top >= top - 2 && part.getBoundingClientRect().top < top + 200",
        arg=[handle, top],
    )


def tab(page: Page, name: str) -> Locator:
    """A link above the right pane."""
    return page.get_by_role("navigation", name="Lab 02").get_by_role("link", name=name, exact=True)


def test_two_panes_share_the_window_and_scroll_by_themselves(reader: Page) -> None:
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
    assert scrolled(left) == 0
    assert reader.evaluate("document.documentElement.scrollTop + document.body.scrollTop") == 0
    assert reader.evaluate("document.documentElement.scrollWidth") == 1440


def test_text_has_a_good_measure_and_code_scrolls_in_its_box(reader: Page) -> None:
    widest = "parts => Math.max(...parts.map(one => one.getBoundingClientRect().width))"
    assert 480 < reader.locator(".reader-panel:not([hidden]) > section > p:not([class])").evaluate_all(widest) < 620
    for pane in panes(reader):
        assert pane.evaluate("pane => pane.scrollWidth - pane.clientWidth") == 0


def test_topic_lab_starter_and_exercises_are_one_click_apart(reader: Page) -> None:
    left, right = panes(reader)
    expect(tab(reader, "Lab")).to_have_attribute("aria-current", "true")
    tab(reader, "Exercises").click()
    in_view(right, right.get_by_role("heading", name="Exercises"))
    expect(tab(reader, "Exercises")).to_have_attribute("aria-current", "true")
    tab(reader, "Starter").click()
    in_view(right, right.get_by_role("heading", name="train_single_gpu.py"))
    expect(reader.locator("#lab")).to_be_hidden()
    expect(tab(reader, "Starter")).to_have_attribute("aria-current", "true")
    assert scrolled(right) < 20  # nothing stands above it
    tab(reader, "Lab").click()
    in_view(right, right.get_by_role("heading", name="Lab 02:"))
    expect(reader.locator("#starter")).to_be_hidden()
    topics = reader.get_by_role("navigation", name="Chapters of Lab 02").get_by_role("link")
    expect(topics.first).to_have_attribute("aria-current", "page")
    topics.filter(has_text="Backpropagation").click()
    arrived(reader, "read/lab-02-backpropagation.html")
    expect(left.get_by_role("heading", name="Backpropagation", level=1)).to_be_visible()


def test_another_chapter_leaves_the_lab_where_it_is(reader: Page) -> None:
    tab(reader, "Exercises").click()
    reader.get_by_role("navigation", name="Chapters of Lab 02").get_by_role("link", name="Loss functions").click()
    arrived(reader, "read/lab-02-loss-functions.html")
    left, right = panes(reader)
    in_view(right, right.get_by_role("heading", name="Exercises"))
    assert scrolled(left) == 0


def test_links_between_the_two_move_the_other_pane(reader: Page) -> None:
    left, right = panes(reader)
    left.get_by_role("link", name="starter of Lab 02").click()
    in_view(right, right.get_by_role("heading", name="train_single_gpu.py"))
    left.get_by_role("heading", name="Quiz").scroll_into_view_if_needed()
    tab(reader, "Lab").click()
    right.get_by_role("link", name="Training loop").first.click()
    in_view(left, left.get_by_role("heading", name="Training loop", level=1))
    assert f"{FIRST}.html" in reader.url


def test_a_link_to_the_starter_opens_it_and_back_returns(reader: Page) -> None:
    right = panes(reader)[1]
    link = right.get_by_role("link", name="train_single_gpu.py").first
    link.click()
    expect(reader.locator("#lab")).to_be_hidden()
    in_view(right, right.get_by_role("heading", name="train_single_gpu.py"))
    reader.go_back()
    expect(reader.locator("#starter")).to_be_hidden()
    expect(link).to_be_in_viewport()


def test_an_address_can_name_a_place_in_the_starter(site: Path, page: Page) -> None:
    anchors = [tag["id"] for tag in soup(site / f"{FIRST}.html").select("#starter section[id]")]
    anchor = anchors[len(anchors) // 2]
    page.goto(f"{site.as_uri()}/{FIRST}.html#{anchor}")
    expect(page.locator("#lab")).to_be_hidden()
    in_view(panes(page)[1], page.locator(f'[id="{anchor}"]'))


def test_going_back_and_reloading_find_both_places(reader: Page) -> None:
    left, right = panes(reader)
    quiz, break_it = left.get_by_role("heading", name="Quiz"), right.get_by_role("heading", name="Break It")
    for heading in (quiz, break_it):
        heading.evaluate("heading => heading.scrollIntoView()")
    reader.wait_for_function("() => history.state?.reader.left.above > 50 && history.state.reader.right.above > 50")

    def same_places() -> None:
        in_view(left, quiz)
        in_view(right, break_it)

    reader.reload()
    same_places()
    tab(reader, "Notebook").click()
    arrived(reader, "notebooks/lab-02-single-gpu-training.html")
    reader.go_back()
    same_places()
    tab(reader, "Starter").click()
    expect(break_it).to_be_hidden()
    reader.go_back()
    same_places()


def test_an_address_with_an_anchor_opens_the_right_pane_there(site: Path, page: Page) -> None:
    page.goto(f"{site.as_uri()}/{FIRST}.html#exercises")
    left, right = panes(page)
    in_view(right, right.get_by_role("heading", name="Exercises"))
    assert scrolled(left) == 0


def test_the_divider_moves_by_keys_and_by_hand_and_stays(reader: Page) -> None:
    left = panes(reader)[0]
    width = "pane => pane.getBoundingClientRect().width"
    before = left.evaluate(width)
    divider = reader.get_by_role("separator", name="Width of the chapter")
    divider.focus()
    for _ in range(3):
        reader.keyboard.press("ArrowLeft")
    expect(divider).to_have_attribute("aria-valuenow", "44")
    assert before - left.evaluate(width) == pytest.approx(0.06 * 1428, abs=2)
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


def test_keys_lead_from_pane_to_pane_and_to_the_map(reader: Page) -> None:
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


def test_a_browser_that_keeps_nothing_still_reads(site: Path, page: Page) -> None:
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
    arrived(page, "read/lab-02-forward-pass.html")
    expect(page.get_by_role("region", name="Chapter: Forward pass")).to_be_visible()


# --- A phone, and paper.


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
        assert 40 <= top < 220, name  # below the bar, which stays
    phone.locator("#starter .lead, #starter h1").last.scroll_into_view_if_needed()
    phone.mouse.wheel(0, 600)
    expect(tab(phone, "Starter")).to_have_attribute("aria-current", "true")


def test_paper_gets_both_one_after_the_other(reader: Page) -> None:
    tab(reader, "Starter").click()
    reader.emulate_media(media="print")
    expect(reader.locator("#chapter")).to_be_visible()
    expect(reader.locator("#lab")).to_be_visible()
    expect(reader.locator("#starter")).to_be_hidden()
    expect(reader.locator(".reader-bar").first).to_be_hidden()
    assert reader.evaluate("document.documentElement.scrollHeight") > 5000
