"""Lines end where a reader expects them to: not within a date, a short option, or between a number and its unit."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

PAGES = ["handbook/errata", "handbook/engineering-tips", "labs/lab-04-gradient-accumulation", "handbook/claims"]
# What is drawn on more than one line: its boxes have different tops.
BROKEN = """those => those.filter((one) => {
  const tops = [...one.getClientRects()].map((box) => Math.round(box.top));
  return Math.max(...tops) - Math.min(...tops) > 4 && !one.closest("td");
}).map((one) => one.textContent)"""


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [1440, 390, 320])
def test_what_belongs_together_is_on_one_line(site: Path, page: Page, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((site / f"{name}.html").as_uri())
    held = page.locator("article .unbroken")
    assert held.count() > 20
    assert held.evaluate_all(BROKEN) == []


def test_dates_options_and_units_are_what_is_held(site: Path, page: Page) -> None:
    page.goto((site / "labs" / "lab-04-gradient-accumulation.html").as_uri())
    texts = page.locator("article .unbroken").all_inner_texts()
    assert any(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text in texts)
    assert "clip_grad_norm_" in texts
    prose = page.locator("article p, article li").all_text_contents()
    assert [text for text in prose if re.search(r"\d (GB|MiB|bytes|tokens)\b", text)] == []


def test_a_long_name_in_a_narrow_table_ends_its_lines_after_underscores(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto((site / "handbook" / "several-nodes.html").as_uri())
    name = page.locator("td code").filter(has_text=re.compile("^TORCH_ELASTIC_SHUTDOWN_TIMEOUT$"))
    expect(name.first).to_have_js_property("textContent", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")  # as somebody copies it
    table = page.locator(".table-wrapper", has=name).first
    assert table.evaluate("it => it.scrollWidth - it.clientWidth") == 0
