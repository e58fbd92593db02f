"""The search finds what people look for, by keyboard and on a phone, and leads to places that are there."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from rankzero.claims.registry import all_claims
from rankzero.curriculum import ROOT
from rankzero.publish.site import npm_packages
from rankzero.publish.site.views import search_entries

START = "handbook/optimizers.html"
AXE = npm_packages.path("axe-core/axe.min.js")

# What somebody types, and where it must lead: one of the first three answers.
ASKED = {
    "all_reduce": "labs/lab-07-ddp.html#ring-all-reduce",
    "allreduce": "handbook/sharding-and-zero.html#an-all-reduce-is-two-halves",
    "optimizer.step()": "handbook/learning-rate-and-schedules.html",
    "ZeRO-3": "handbook/sharding-and-zero.html",
    "zero 3": "handbook/sharding-and-zero.html",
    "--resume": "handbook/learning-rate-and-schedules.html#resume-extend-restart",
    "how do I resume a run": "handbook/learning-rate-and-schedules.html#resume-extend-restart",
    "torch.compile": "handbook/engineering-tips.html",
    "fully_shard": "handbook/sharding-and-zero.html#fully-shard",
    "bucket_cap_mb": "handbook/distributed-data-parallel.html#how-ddp-hides-it",
    "bf16": "handbook/memory.html",
    "GradScaler": "handbook/precision.html",
    "warm-up": "handbook/learning-rate-and-schedules.html#warm-up-what-it-is-for",
    "adamw weight decay": "handbook/optimizers.html#adamw-decay-that-v-does-not-see",
    "noise scale": "handbook/batch-size-and-scaling.html#the-gradient-noise-scale",
    "MASTER_ADDR": "handbook/several-nodes.html",
    "roofline": "handbook/profiling-and-roofline.html",
    "gradient accumulation": "labs/lab-04-gradient-accumulation.html",
    "chckpointing": "labs/lab-05-activation-checkpointing.html",
    "overfit_one_batch": "labs/lab-02-single-gpu-training.html",
    "gradescope": "handbook/for-instructors.html#gradescope",
    "xor-needs-a-bend": "handbook/claims.html#xor-needs-a-bend",
    "train_single_gpu.py": "source/code/lab-02-single-gpu-training/train_single_gpu.py.html",
    "clip_gradients": "source/code/lab-04-gradient-accumulation/exercises.py.html#L",
}


@cache
def data_of(site: Path) -> dict[str, Any]:
    text = (site / "_static" / "search-data.js").read_text("utf-8")
    found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex(";")])
    return found


def test_what_can_be_found_is_there(site: Path) -> None:
    data = data_of(site)
    texts = [(site / address).read_text("utf-8") for address, *_ in data["pages"]]
    lost = [
        f"{data['pages'][page][0]}#{anchor} ({title})"
        for page, anchor, title, _ in data["entries"]
        if anchor and f'id="{anchor}"' not in texts[page]
    ]
    assert not lost
    assert {address for address, *_ in data["pages"]} >= {f"labs/{file.stem}.html" for file in ROOT.glob("labs/*.md")}
    assert {title for _, _, title, _ in data["entries"]} >= set(all_claims())


def test_a_notebook_is_found_once_and_without_its_answers(site: Path) -> None:
    data = data_of(site)
    assert not [address for address, *_ in data["pages"] if address.startswith("solutions/")]
    answer = "The right half is empty: no gradient comes near the top of the range"
    assert answer in (ROOT / "solutions/lab-03-amp/notebook.py").read_text("utf-8")
    assert not [title for _, _, title, text in data["entries"] if answer in text]


def test_code_and_formulas_are_no_noise() -> None:
    assert search_entries.plain(r"h = \frac{8}{3}C \times \text{tokens}") == "h = 8/3C × tokens"
    assert search_entries.plain(r"\lambda\theta^2, \Psi/N_d \unknown") == "λθ^2, Ψ/N_d "
    texts = [
        entry.text for entry in search_entries.of_file(ROOT / "code/lab-02-single-gpu-training/train_single_gpu.py")
    ]
    assert not [text for text in texts if "loss.backward()\n" in text]


def test_nothing_of_another_search_is_left(site: Path) -> None:
    assert not (site / "search.html").exists()
    assert not (site / "searchindex.js").exists()
    for file in (site / "index.html", site / START):
        assert not re.search(r'rel="search"|searchtools|language_data|search\.html', file.read_text("utf-8"))


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Search")


@pytest.fixture
def search(site: Path, page: Page) -> Page:
    """A page on which the search was opened, by its key."""
    page.goto((site / START).as_uri())
    page.keyboard.press("/")
    expect(dialog(page).get_by_role("searchbox")).to_be_focused()
    return page


def answers(page: Page, text: str) -> list[str]:
    dialog(page).get_by_role("searchbox").fill(text)
    expect(dialog(page).get_by_role("status")).to_contain_text(" on ")
    return [re.sub(r"\?found=[^#]*", "", str(link.get_attribute("href"))) for link in page.locator(".search a").all()]


def test_people_find_what_they_look_for(search: Page) -> None:
    lost = {}
    for text, place in ASKED.items():
        dialog(search).get_by_role("searchbox").fill("")
        expect(dialog(search).get_by_role("status")).to_contain_text("Chapters")
        if not any(place in found for found in answers(search, text)[:3]):
            lost[text] = answers(search, text)[:3]
    assert not lost


def test_the_words_are_marked_and_only_they(search: Page) -> None:
    answers(search, "all_reduce bucket")
    expect(search.locator(".search mark").first).to_be_visible()
    marked = {text.lower() for text in search.locator(".search mark").all_inner_texts()}
    assert any("reduce" in text for text in marked)
    assert not marked & {"all", "reduce", "the"}


def test_arrows_choose_and_enter_opens_a_section_with_its_words_marked(search: Page) -> None:
    answers(search, "noise scale")
    links = search.locator(".search a")
    search.keyboard.press("ArrowDown")
    expect(links.first).to_be_focused()
    search.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    search.keyboard.press("ArrowUp")
    search.keyboard.press("ArrowUp")
    expect(dialog(search).get_by_role("searchbox")).to_be_focused()
    search.keyboard.press("Enter")
    search.wait_for_url(re.compile(r"batch-size-and-scaling\.html\?found=.*#the-gradient-noise-scale$"))
    search.wait_for_function("() => CSS.highlights.get('found')?.size > 1")
    expect(search.get_by_role("heading", name="The gradient noise scale")).to_be_in_viewport()


def test_typing_goes_on_from_a_link(search: Page) -> None:
    answers(search, "warm")
    search.keyboard.press("ArrowDown")
    search.keyboard.type("-up")
    expect(dialog(search).get_by_role("searchbox")).to_have_value("warm-up")


def test_escape_closes_and_the_focus_returns(site: Path, page: Page) -> None:
    page.goto((site / START).as_uri())
    button = page.locator("button.find")
    button.press("Enter")
    answers(page, "adam")
    page.keyboard.press("Escape")
    expect(dialog(page)).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Control+k")
    expect(dialog(page).get_by_role("searchbox")).to_have_value("adam")
    dialog(page).get_by_role("button", name="Close").click()
    expect(dialog(page)).to_be_hidden()


def test_a_place_on_the_open_page_is_reached_without_loading_it(search: Page) -> None:
    search.evaluate("() => { window.same = true }")
    answers(search, "what a checkpoint must hold optimizers")
    search.locator(".search a[href*='optimizers.html']").first.click()
    expect(dialog(search)).to_be_hidden()
    expect(search.locator(search.evaluate("() => location.hash"))).to_be_in_viewport()
    assert search.evaluate("() => window.same && CSS.highlights.get('found').size > 1")


def test_it_says_what_it_searched_when_it_finds_nothing(search: Page) -> None:
    dialog(search).get_by_role("searchbox").fill("qwxzqwxz")
    status = dialog(search).get_by_role("status")
    expect(status).to_contain_text("Nothing found for “qwxzqwxz” in ")
    status.get_by_role("link", name="The map of topics").click()
    search.wait_for_url(re.compile(r"handbook/README\.html$"))


def test_the_index_is_loaded_when_somebody_searches_and_not_before(site: Path, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / START).as_uri(), wait_until="networkidle")
    assert not [url for url in asked if "search-data" in url or "minisearch" in url]
    page.keyboard.press("/")
    answers(page, "adam")
    assert [url for url in asked if "search-data" in url]


def test_it_works_on_a_phone(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / START).as_uri())
    page.locator(".mobile-header label[for=__navigation]").click()
    page.locator("button.find").click()
    assert answers(page, "gradient_accumulation_and_other_long_words bf16")
    assert dialog(page).bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 844}
    assert dialog(page).evaluate("it => it.scrollWidth - it.clientWidth") == 0
    answers(page, "adamw decay")
    page.locator(".search a[href*='optimizers.html']").first.click()
    expect(dialog(page)).to_be_hidden()
    expect(page.locator(".sidebar-drawer")).not_to_be_in_viewport()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_use_it(search: Page, theme: str) -> None:
    search.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    answers(search, "all_reduce")
    search.add_script_tag(path=AXE)
    found = search.evaluate("() => axe.run('dialog', { preload: false })")
    assert not [f"{one['id']}: {one['nodes'][0]['failureSummary']}" for one in found["violations"]]
