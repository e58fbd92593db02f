"""Sortable tables: buttons in the heads of the errata's tables sort the rows, by mouse and by keyboard."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

PAGE = "handbook/errata.html"
COLUMNS = ["said", "where", "verdict", "what holds", "chapter"]
CELLS = "(table, column) => [...table.tBodies[0].rows].map((row) => row.cells[column].textContent.trim())"


@pytest.fixture
def table(site: Path, page: Page) -> Locator:
    page.goto((site / PAGE).as_uri())
    return page.locator("table.sortable").first


def cells(table: Locator, column: int) -> list[str]:
    return list(table.evaluate(CELLS, column))


def test_every_table_of_sayings_has_a_button_in_each_head(table: Locator, page: Page) -> None:
    tables = page.locator("table.sortable")
    assert tables.count() > 5
    for place in range(tables.count()):
        assert tables.nth(place).locator("th button").all_inner_texts() == COLUMNS
    assert page.locator("table:not(.sortable) th button").count() == 0


def test_a_click_sorts_a_second_reverses_and_a_third_restores(table: Locator) -> None:
    verdict, before = COLUMNS.index("verdict"), cells(table, 0)
    head = table.locator("th").nth(verdict)
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert cells(table, verdict) == sorted(cells(table, verdict))
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert cells(table, verdict) == sorted(cells(table, verdict), reverse=True)
    head.locator("button").click()
    expect(table.locator("th[aria-sort]")).to_have_count(0)
    assert cells(table, 0) == before


def test_the_keyboard_sorts_one_column_at_a_time(table: Locator, page: Page) -> None:
    where, said = table.locator("th").nth(1), table.locator("th").first
    where.locator("button").focus()
    page.keyboard.press("Enter")
    expect(where).to_have_attribute("aria-sort", "ascending")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    expect(said).to_have_attribute("aria-sort", "ascending")
    expect(table.locator("th[aria-sort]")).to_have_count(1)
    expect(said.locator("button")).to_be_focused()


def test_section_numbers_sort_as_numbers(table: Locator, page: Page) -> None:
    table.locator("th").nth(1).locator("button").click()
    numbers = [int(text.split()[1].strip(",")) for text in cells(table, 1) if text.startswith("Reference")]
    assert len(set(numbers)) > 2
    assert numbers == sorted(numbers)


def test_a_narrow_window_scrolls_the_table_and_not_the_page(site: Path, table: Locator, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator(".table-wrapper", has=table).first
    assert box.evaluate("element => element.scrollWidth > element.clientWidth")
    expect(box).to_have_attribute("tabindex", "0")


def test_without_javascript_the_table_is_plain(site: Path, new_context: Callable[..., BrowserContext]) -> None:
    page = new_context(java_script_enabled=False).new_page()
    page.goto((site / PAGE).as_uri())
    heads = page.locator("table.sortable").first.locator("th")
    assert heads.all_inner_texts() == COLUMNS
    assert heads.locator("button").count() == 0
