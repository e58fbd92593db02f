"""Search of the site: it finds the expected pages, works by keyboard and on a phone, and has no broken links."""

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect
from tiers import sampled

from rankzero.claims.table import listed_claims
from rankzero.curriculum import ROOT, all_labs
from rankzero.publish.site import npm_packages
from rankzero.publish.site.views import search_entries, search_index

START = "handbook/optimizers.html"
AXE = npm_packages.path("axe-core/axe.min.js")

# Words -> the page that treats them, which is finished. Other pages may mention them, and may come before it.
TREATED = {
    "all_reduce": "labs/lab-07-ddp.html",
    "ZeRO-3": "handbook/sharding-and-zero.html",
    "zero 3": "handbook/sharding-and-zero.html",
    "torch.compile": "handbook/compile-and-export.html",
    "fully_shard": "handbook/sharding-and-zero.html",
    "bucket_cap_mb": "handbook/distributed-data-parallel.html",
    "bf16": "handbook/precision.html",
    "GradScaler": "labs/lab-03-amp.html",
    "warm-up": "handbook/learning-rate-and-schedules.html",
    "adamw weight decay": "handbook/optimizers.html",
    "noise scale": "handbook/batch-size-and-scaling.html",
    "MASTER_ADDR": "handbook/several-nodes.html",
    "roofline": "handbook/hardware-and-roofline.html",
    "gradient accumulation": "labs/lab-04-gradient-accumulation.html",
    "chckpointing": "labs/lab-05-activation-checkpointing.html",
    "overfit_one_batch": "labs/lab-02-single-gpu-training.html",
    "gradescope": "handbook/for-instructors.html",
    "xor-needs-a-bend": "handbook/claims.html",
    "allreduce": "handbook/sharding-and-zero.html",
    "how do I resume a run": "handbook/learning-rate-and-schedules.html",
    "clip_gradients": "labs/lab-04-gradient-accumulation.html",
    "train_single_gpu.py": "source/code/lab-02-single-gpu-training/train_single_gpu.py.html",
    # A learner's words, which the pages may lack: views/search_synonyms.toml
    "OOM": "handbook/engineering-tips.html",
    "out of memory": "handbook/memory.html",
    "NaN": "handbook/precision.html",
    "loss is nan": "handbook/precision.html",
    "learning rate too high": "handbook/learning-rate-and-schedules.html",
    "warmup": "handbook/learning-rate-and-schedules.html",
    "how many GPUs": "handbook/planning.html",
    "multi gpu": "handbook/distributed-data-parallel.html",
    "install": "index.html",
    "python version": "index.html",
    "Windows": "index.html",
    "Colab": "index.html",
    "loss not decreasing": "handbook/engineering-tips.html",
    "cuda error": "handbook/several-nodes.html",
    "checkpoint": "handbook/checkpoints-and-faults.html",
    "resume training": "handbook/checkpoints-and-faults.html",
    "fp16 or bf16": "handbook/precision.html",
    "slow training": "handbook/profiling.html",
    "crash": "handbook/checkpoints-and-faults.html",
    "DDP hangs": "handbook/several-nodes.html",
    "save model": "handbook/checkpoints-and-faults.html",
    "mixed precision": "handbook/precision.html",
    "low GPU utilization": "handbook/profiling.html",
    "dataloader slow": "handbook/input-pipeline.html",
    "spot instance": "handbook/checkpoints-and-faults.html",
    "shape mismatch": "handbook/tensors-and-modules.html",
    "gradient clipping": "handbook/gradient-mechanics.html",
    "overfitting": "handbook/regularization.html",
    "batch size": "handbook/batch-size-and-scaling.html",
}
SAMPLE = {"all_reduce", "ZeRO-3", "chckpointing", "how do I resume a run", "xor-needs-a-bend", "OOM", "Windows", "NaN"}


@cache
def data_of(site: Path) -> dict[str, Any]:
    text = (site / "_static" / "search-data.js").read_text("utf-8")
    data: dict[str, Any] = json.loads(text[text.index("{") : text.rindex(";")])
    return data


def test_every_entry_of_the_index_has_a_target(site: Path) -> None:
    data = data_of(site)
    texts = [(site / address).read_text("utf-8") for address, *_ in data["pages"]]
    missing = [
        f"{data['pages'][page][0]}#{anchor} ({title})"
        for page, anchor, title, _ in data["entries"]
        if anchor and f'id="{anchor}"' not in texts[page]
    ]
    assert not missing
    assert {address for address, *_ in data["pages"]} >= {f"labs/{lab.slug}.html" for lab in all_labs()}
    assert {title for _, _, title, _ in data["entries"]} >= set(listed_claims())


def test_the_index_has_each_notebook_once_and_without_its_answers(site: Path) -> None:
    data = data_of(site)
    assert not [address for address, *_ in data["pages"] if address.startswith("solutions/")]
    given, asked = (
        {"".join(cell["source"]) for cell in json.loads(notebook.read_text("utf-8"))["cells"]}
        for notebook in (ROOT / "solutions/lab-03-amp/notebook.ipynb", ROOT / "notebooks/lab-03-amp.ipynb")
    )
    answers = [line for cell in given - asked for line in cell.splitlines() if len(line) > 60 and "`" not in line]
    assert answers
    assert not [line for line in answers for *_, text in data["entries"] if line in text]


def test_formulas_are_plain_text_in_the_index_and_code_is_left_out() -> None:
    assert search_entries.plain(r"h = \frac{8}{3}C \times \text{tokens}") == "h = 8/3C × tokens"
    assert search_entries.plain(r"\lambda\theta^2, \Psi/N_d \unknown") == "λθ^2, Ψ/N_d "
    texts = [
        entry.text for entry in search_entries.of_file(ROOT / "code/lab-02-single-gpu-training/train_single_gpu.py")
    ]
    assert not [text for text in texts if "loss.backward()\n" in text]


def test_the_site_has_no_files_of_sphinx_search(site: Path) -> None:
    assert not (site / "search.html").exists()
    assert not (site / "searchindex.js").exists()
    for file in (site / "index.html", site / START):
        assert not re.search(r'rel="search"|searchtools|language_data|["/]search\.html', file.read_text("utf-8"))


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Search")


@pytest.fixture
def search(site: Path, page: Page) -> Page:
    """A page on which the key / has opened the search."""
    page.goto((site / START).as_uri())
    page.keyboard.press("/")
    expect(dialog(page).get_by_role("searchbox")).to_be_focused()
    return page


def results(page: Page, text: str) -> list[str]:
    dialog(page).get_by_role("searchbox").fill("")
    expect(dialog(page).get_by_role("status")).to_contain_text("Chapters")
    dialog(page).get_by_role("searchbox").fill(text)
    expect(dialog(page).get_by_role("status")).to_contain_text(" on ")
    return [re.sub(r"\?found=[^#]*", "", str(link.get_attribute("href"))) for link in page.locator(".search a").all()]


@pytest.mark.parametrize("texts", sampled([SAMPLE, set(TREATED) - SAMPLE], [SAMPLE]), ids=["sample", "all others"])
def test_the_page_that_treats_the_words_is_among_the_first_five_results(search: Page, texts: set[str]) -> None:
    missing = {}
    for text in sorted(texts):
        found = results(search, text)[:5]
        if not any(TREATED[text] in result for result in found):
            missing[text] = found
    assert not missing


@pytest.mark.prove
def test_source_files_come_after_pages_unless_they_are_named(search: Page) -> None:
    for text in ("install", "windows", "NaN"):
        places = results(search, text)
        is_source = ["source/" in place for place in places]
        assert is_source == sorted(is_source), text
    assert "source/" in results(search, "train_single_gpu.py")[0]


SYNONYMS = tomllib.loads(search_index.SYNONYMS.read_text(encoding="utf-8"))["words"]


@pytest.mark.parametrize("word", sampled(SYNONYMS, list(SYNONYMS)[:2]))
def test_every_synonym_finds_pages(search: Page, word: str) -> None:
    """A learner's words find a section; the words on the right of the list are words of the pages."""
    for text in (word, *SYNONYMS[word]):
        assert "source/" not in results(search, text)[0], text


def test_only_the_searched_words_are_marked(search: Page) -> None:
    results(search, "all_reduce bucket")
    expect(search.locator(".search mark").first).to_be_visible()
    marked = {text.lower() for text in search.locator(".search mark").all_inner_texts()}
    assert any("reduce" in text for text in marked)
    assert not marked & {"all", "reduce", "the"}


def test_arrows_select_a_result_and_enter_opens_it_with_its_words_marked(search: Page) -> None:
    results(search, "noise scale")
    links = search.locator(".search a")
    search.keyboard.press("ArrowDown")
    expect(links.first).to_be_focused()
    search.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    search.keyboard.press("ArrowUp")
    search.keyboard.press("ArrowUp")
    expect(dialog(search).get_by_role("searchbox")).to_be_focused()
    address = urlsplit(str(links.first.get_attribute("href")))
    search.keyboard.press("Enter")
    search.wait_for_url(re.compile(rf"{re.escape(Path(address.path).name)}\?found=.*#{re.escape(address.fragment)}$"))
    search.wait_for_function("() => CSS.highlights.get('found')?.size > 0")
    expect(search.locator(f"[id='{address.fragment}']")).to_be_in_viewport()


def test_a_result_without_an_anchor_has_its_words_marked_too(site: Path, page: Page) -> None:
    page.goto((site / "handbook" / "batch-size-and-scaling.html").as_uri() + "?found=noise+scale")
    page.wait_for_function("() => CSS.highlights.get('found')?.size > 1")


def test_typing_continues_while_a_result_has_the_focus(search: Page) -> None:
    results(search, "warm")
    search.keyboard.press("ArrowDown")
    search.keyboard.type("-up")
    expect(dialog(search).get_by_role("searchbox")).to_have_value("warm-up")


def test_escape_closes_and_the_focus_returns(site: Path, page: Page) -> None:
    page.goto((site / START).as_uri())
    button = page.locator(".sidebar-drawer button.find")
    button.press("Enter")
    results(page, "adam")
    page.keyboard.press("Escape")
    expect(dialog(page)).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Control+k")
    expect(dialog(page).get_by_role("searchbox")).to_have_value("adam")
    dialog(page).get_by_role("button", name="Close").click()
    expect(dialog(page)).to_be_hidden()


def test_a_result_on_the_open_page_does_not_reload_the_page(search: Page) -> None:
    search.evaluate("() => { window.same = true }")
    results(search, "state in a checkpoint optimizers")
    search.locator(".search a[href*='optimizers.html']").first.click()
    expect(dialog(search)).to_be_hidden()
    expect(search.locator(search.evaluate("() => location.hash"))).to_be_in_viewport()
    assert search.evaluate("() => window.same && CSS.highlights.get('found').size > 1")


def test_a_search_without_results_repeats_the_query_and_links_to_the_map_of_topics(search: Page) -> None:
    dialog(search).get_by_role("searchbox").fill("qwxzqwxz")
    status = dialog(search).get_by_role("status")
    expect(status).to_contain_text("Nothing found for “qwxzqwxz” in ")
    status.get_by_role("link", name="The map of topics").click()
    search.wait_for_url(re.compile(r"handbook/README\.html$"))


def test_the_index_is_loaded_by_the_first_search_and_not_before(site: Path, page: Page) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto((site / START).as_uri())
    assert not [url for url in requested if "search-data" in url or "minisearch" in url]
    page.keyboard.press("/")
    results(page, "adam")
    assert [url for url in requested if "search-data" in url]


@pytest.mark.parametrize(
    ("address", "width", "button"),
    [
        ("handbook/optimizers.html", 1440, ".sidebar-drawer button.find"),
        ("handbook/claims.html", 1280, ".sidebar-drawer button.find"),  # the map is scrolled to its end
        ("handbook/optimizers.html", 390, ".mobile-header button.find"),
        ("read/lab-02-training-loop.html", 1440, ".reader-bar button.find"),
        ("read/lab-02-training-loop.html", 390, ".reader-bar button.find"),
    ],
)
def test_the_search_is_in_sight_at_the_end_of_a_page(
    site: Path, page: Page, address: str, width: int, button: str
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto((site / address).as_uri())
    page.evaluate("() => scrollTo(0, document.body.scrollHeight / 2)")
    page.evaluate("() => document.querySelector('.sidebar-sticky').scrollTo(0, 9999)")
    expect(page.locator(button)).to_be_in_viewport(ratio=1)
    page.locator(button).click()
    expect(dialog(page).get_by_role("searchbox")).to_be_focused()


def test_the_search_works_on_a_phone(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / START).as_uri())
    page.locator(".mobile-header button.find").click()
    assert results(page, "gradient_accumulation_and_other_long_words bf16")
    assert dialog(page).bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 844}
    assert dialog(page).evaluate("element => element.scrollWidth - element.clientWidth") == 0
    results(page, "adamw decay")
    page.locator(".search a[href*='optimizers.html']").first.click()
    expect(dialog(page)).to_be_hidden()
    expect(page.locator(".sidebar-drawer")).not_to_be_in_viewport()


@pytest.mark.parametrize("theme", sampled(["light", "dark"], {"light"}))
def test_axe_finds_no_violation_in_the_search(search: Page, theme: str) -> None:
    search.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    results(search, "all_reduce")
    search.add_script_tag(path=AXE)
    violations = search.evaluate("() => axe.run('dialog', { preload: false })")["violations"]
    assert not [f"{violation['id']}: {violation['nodes'][0]['failureSummary']}" for violation in violations]
