"""Front page: the content of README, and the links that a newcomer follows."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from rankzero.curriculum import ROOT, all_labs
from rankzero.publish.site import page_names
from rankzero.publish.site.views.home import read, topics

README = """<section id="rank-zero"><h1>Rank Zero</h1><p>Labs.</p><figure class="drawn"></figure>
<p>Run it.</p><div class="highlight-text">$ run</div>
<section id="install-and-run"><h2>Install and run</h2></section><section id="more"><h2>More</h2></section>
<section id="the-labs"><h2>The labs</h2><div class="table-wrapper"><table><tbody>
<tr><td><p>00 machine</p></td><td><p>rates</p></td></tr><tr><td><p><a href="x">01</a></p></td><td><p>bytes</p></td></tr>
</tbody></table></div></section><div class="toctree-wrapper compound"></div></section>
<template data-claim="x"></template>"""


@pytest.fixture
def home(site: Path, page: Page) -> Page:
    """The front page in a wide window."""
    page.goto(f"{site.as_uri()}/index.html")
    return page


def test_readme_is_split_into_parts() -> None:
    parts = read(README)
    promise = '<figure class="drawn"></figure><p>Run it.</p><div class="highlight-text">$ run</div>'
    assert (parts.title, parts.lead, parts.promise) == ("Rank Zero", "Labs.", promise)
    assert "Install and run" in parts.install
    assert parts.notes == '<template data-claim="x"></template>'
    assert parts.labs.strip() == "<h2>The labs</h2>"
    assert parts.planned == [("00 machine", "rates")]
    assert [part.count("More") for part in parts.rest] == [1]


def test_each_chapter_has_the_topic_that_the_handbooks_map_gives_it() -> None:
    topics_by_page = topics()
    assert topics_by_page["handbook/training-loop"] == "one training step and the loop around it"
    assert topics_by_page["handbook/memory"] == "the memory of a step"
    assert {page_names.name_of(file) for file in page_names.chapters()} <= set(topics_by_page)


def test_the_front_page_has_every_heading_and_command_of_readme(home: Page) -> None:
    shown = home.locator("article").inner_text()
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(("# ", "## ", "make ", "rankzero ")):
            assert " ".join(line.lstrip("# ").split()) in " ".join(shown.split())
    expect(home).to_have_title("Rank Zero")


def test_each_lab_has_a_card(home: Page) -> None:
    for lab in all_labs():
        card = home.get_by_role("listitem").filter(has=home.get_by_role("heading", name=f"{lab.number} {lab.title}"))
        expect(card).to_contain_text(lab.summary.replace("'", "’"))
        expect(card).to_contain_text(f"{lab.minutes} min · {lab.difficulty}")
        expect(card.get_by_role("link")).to_have_count(5)


@pytest.mark.parametrize("width", [390, 1440])
def test_no_part_scrolls_sideways_and_the_start_is_in_sight(home: Page, width: int) -> None:
    home.set_viewport_size({"width": width, "height": 900})
    assert home.evaluate("document.documentElement.scrollWidth") == width
    assert home.evaluate("(c => c.scrollWidth - c.clientWidth)(document.querySelector('.content'))") == 0
    start = home.get_by_role("navigation", name="Where to start").get_by_role("link")
    expect(start).to_have_count(3)
    for link in start.all():
        expect(link).to_be_in_viewport(ratio=1)


def test_a_number_of_the_first_caption_shows_its_claim(home: Page) -> None:
    figure = home.locator("figure.drawn").first
    number = figure.locator("a.claim").first
    number.click()
    expect(home.get_by_role("dialog")).to_contain_text(f"rankzero claims {number.get_attribute('data-claim')}")


def test_the_first_command_is_followed_by_its_output_and_its_picture(home: Page) -> None:
    install = home.locator("#install-and-run")
    text = install.inner_text()
    assert re.search(r"make lab-02.*MiB after.*loss \d", text, re.DOTALL)
    expect(install.locator("figure.drawn svg")).to_be_visible()


def follow(page: Page, link: Locator, title: str) -> None:
    """Clicks the link and waits until the page with this title has loaded."""
    link.click()
    expect(page.get_by_role("heading", level=1).first).to_contain_text(title)
    page.wait_for_load_state()


def test_a_newcomer_reaches_install_lab_chapter_starter_and_claim_by_clicks(home: Page) -> None:
    start = home.get_by_role("navigation", name="Where to start")
    start.get_by_role("link", name="Install").click()
    expect(home.get_by_text("You need Python 3.11 or newer")).to_be_in_viewport()
    expect(home.get_by_text("make lab-02").first).to_be_in_viewport()

    follow(home, start.get_by_role("link", name="Lab 02"), "Lab 02")
    parts = home.get_by_role("navigation", name="Parts of this lab")
    parts.get_by_role("link", name="Exercises").click()
    expect(home.get_by_role("heading", name="Exercises")).to_be_in_viewport()
    follow(home, parts.get_by_role("link", name="Chapter"), "Training loop")
    home.go_back()
    follow(home, parts.get_by_role("link", name="Starter"), "train_single_gpu.py")
    expect(home.get_by_text("zero_grad").first).to_be_attached()
    home.go_back()

    home.locator("article a.claim").first.click()
    follow(home, home.get_by_role("dialog").get_by_role("link", name="How it is measured"), ".py")
    assert re.search(r"/source/(handbook/claims|tests/lab-[\w-]+/claims)", home.url)

    follow(home, home.get_by_role("link", name="Rank Zero").first, "Rank Zero")
    follow(home, start.get_by_role("link", name="Teach"), "For instructors")


def test_a_newcomer_with_a_phone_finds_the_first_lab_beside_its_chapter(home: Page) -> None:
    home.set_viewport_size({"width": 390, "height": 844})
    follow(home, home.get_by_role("link", name="Chapter, Lab 02"), "Training loop")
    home.get_by_role("navigation", name="Lab 02").get_by_role("link", name="Exercises").click()
    expect(home.get_by_role("heading", name="Exercises", exact=True)).to_be_in_viewport()
