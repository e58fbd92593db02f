"""Links from pages to the calculator: each opens the setting of its text and shows the page's number."""

import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from sphinx.application import Sphinx

from rankzero.curriculum import ROOT
from rankzero.publish.site.markdown.calculator_links import COMMENT

PAGES = [file for folder in ("handbook", "labs") for file in sorted((ROOT / folder).glob("*.md"))]
SETTINGS = [
    (f"{file.parent.name}/{file.stem}", section, comment["words"], comment["setting"])
    for file in PAGES
    for section in re.split(r"^(?=## )", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for comment in COMMENT.finditer(section)
]


def test_memory_planning_and_lab_01_link_to_the_calculator() -> None:
    assert {page for page, *_ in SETTINGS} == {"handbook/memory", "handbook/planning", "labs/lab-01-memory-ledger"}


def test_a_comment_without_a_setting_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("# A page\n\nText.\n\n<!-- calculator: this step recipe=fp32 -->\n")
    warnings = io.StringIO()
    folders = [tmp_path, None, tmp_path / "out", tmp_path / "trees"]
    extensions = {"extensions": ["myst_parser", "rankzero.publish.site.markdown.calculator_links"]}
    Sphinx(*folders, "html", confoverrides=extensions, status=None, warning=warnings).build()
    assert "recipe=fp32 -->' leads nowhere: write" in warnings.getvalue()


@pytest.mark.parametrize(("written", "section", "words", "setting"), SETTINGS, ids=[case[2] for case in SETTINGS])
def test_the_calculator_shows_the_number_of_the_section(
    page: Page, site: Path, written: str, section: str, words: str, setting: str
) -> None:
    page.goto((site / f"{written}.html").as_uri())
    page.locator(".to-calculator").get_by_role("link", name=words, exact=True).click()
    expect(page).to_have_url(re.compile(f"calculator.html#{re.escape(setting)}$"))  # no part of the setting was refused
    expect(page.locator(".problem:visible")).to_have_count(0)
    peak = page.locator("[data-show=peak]")
    expect(peak).to_have_text(re.compile(r"^\d+\.\d+ GB$"))  # after the computation
    shown = peak.inner_text()
    numbers = re.findall(r"(\d+\.\d+) GB", section)
    assert _rounded(shown) & set(numbers), (shown, numbers)


def _rounded(shown: str) -> set[str]:
    value = float(shown.removesuffix(" GB"))
    return {f"{value:.1f}", f"{value:.2f}"}
