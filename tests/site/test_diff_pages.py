"""Diffs: every line is kept, changes are marked, and each line links to its place in the file."""

from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Page, expect

from rankzero.curriculum import ROOT, Lab, all_labs, find_lab
from rankzero.publish.site import page_names
from rankzero.publish.site.source import diff_lines, diff_pages
from rankzero.publish.site.source.diff_lines import Line


@pytest.mark.parametrize("way", diff_pages.compared_labs(), ids=diff_pages.page_of)
def test_a_comparison_holds_every_line_of_both_files(way: tuple[Lab, Lab]) -> None:
    parts = diff_pages.parts(*(lab.starter for lab in way))
    for lab, signs, number in ((way[0], " -", "old"), (way[1], " +", "new")):
        shown = {getattr(line, number): line.text for part in parts for line in part.lines if line.sign in signs}
        source = lab.starter.read_text(encoding="utf-8").splitlines()
        assert shown == dict(enumerate(source, start=1))


def test_each_starter_that_trains_is_compared_with_the_next() -> None:
    numbers = {(old.number, new.number) for old, new in diff_pages.compared_labs()}
    assert numbers >= {("02", "03"), ("03", "04"), ("04", "05"), ("05", "06"), ("06", "07"), ("07", "08"), ("02", "08")}
    titles = {lab.number: [title for title, _ in diff_pages.pages_of(lab)] for lab in all_labs()}
    assert titles["01"] == []
    assert titles["02"] == ["Changes in Lab 03"]
    assert titles["05"] == ["Changes since Lab 04", "Changes since Lab 02", "Changes in Lab 06"]


def test_changed_words_are_marked() -> None:
    gone, added = diff_lines.changes(
        ["    loss.backward()  # fills p.grad"], ["    (loss * scale).backward()  # in fp16"]
    )
    assert (gone.sign, gone.marks, added.sign) == ("-", [], "+")
    assert diff_lines.html(added).count("<mark>") == 2
    assert "<mark>* scale)</mark>" in diff_lines.html(added)


def test_marks_go_around_colors() -> None:
    assert diff_lines.marked('<span class="k">a&amp;b</span>cd', [(1, 4)]) == (
        '<span class="k">a<mark>&amp;b</mark></span><mark>c</mark>d'
    )


def test_a_unified_diff_has_numbers_and_an_excerpt_has_none() -> None:
    assert diff_lines.parse("@@ -4,2 +4,2 @@\n one\n-two\n+three\n")[1:] == [
        Line(" ", "one", 4, 4),
        Line("-", "two", 5),
        Line("+", "three", new=5),
    ]
    assert diff_lines.parse(" one\n+two") == [Line(" ", "one"), Line("+", "two")]


def test_a_diff_inside_a_page_keeps_the_text_of_its_source(site: Path) -> None:
    lab = next(lab for lab in all_labs() if "since=" in lab.page.read_text(encoding="utf-8"))
    soup = BeautifulSoup((site / f"{page_names.name_of(lab.page)}.html").read_text(encoding="utf-8"), "html.parser")
    shown = soup.select_one(".highlight-diff pre")
    assert shown
    text = "\n".join(line.rstrip() for line in shown.get_text().splitlines())
    assert text in lab.page.read_text(encoding="utf-8")
    assert shown.select(".line.add .sign")
    assert shown.select(".line.gone .sign")


def test_a_committed_diff_links_to_the_lines_that_it_changes(site: Path) -> None:
    diffs = sorted(ROOT.glob("code/lab-*/*.diff"))
    assert diffs
    for file in diffs:
        page = site / f"{page_names.source_page(file)}.html"
        if page.exists():  # only diffs that a page links to are published
            link = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").select_one(".line.gone a, .line a")
            assert link, file
            target, _, line = str(link["href"]).partition("#")
            assert f'id="{line}"' in (page.parent / target).read_text(encoding="utf-8")


def test_a_diff_opens_at_the_training_step(page: Page, site: Path) -> None:
    page.goto((site / "labs" / "lab-03-amp.html").as_uri())
    page.get_by_role("link", name="train_single_gpu.py").first.click()
    expect(page.get_by_role("heading", name="train_step", exact=True)).to_be_in_viewport()
    page.goto((site / "read" / "lab-07-distributed-data-parallel.html").as_uri())
    page.get_by_role("navigation", name="Lab 07").get_by_role("link", name="Diff").click()
    expect(page.get_by_role("heading", name="train_step", exact=True)).to_be_in_viewport()
    expect(page.get_by_role("heading", name="imports", exact=True)).not_to_be_in_viewport()


def test_a_diff_without_a_changed_training_step_opens_at_its_first_change_below_the_options() -> None:
    labs = {lab.number: lab for lab in all_labs()}
    assert diff_pages.lesson_of((labs["02"], labs["03"])) == "train_step"
    assert diff_pages.lesson_of((labs["02"], labs["05"])) == "Checkpoint"


def test_a_comparison_unfolds_unchanged_lines_and_links_to_changed_ones(page: Page, site: Path) -> None:
    page.goto((site / f"{page_names.source_page(find_lab('03').starter)}.html").as_uri())
    page.get_by_role("link", name="Changes since Lab 02").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("From Lab 02 to Lab 03")
    step = page.locator("#train_step")
    expect(step.locator(".line.add", has_text="torch.autocast")).to_be_visible()
    folded = page.locator("details.same").first
    hidden = folded.locator(".line").first
    expect(hidden).to_be_hidden()
    folded.locator("summary").press("Enter")
    expect(hidden).to_be_visible()
    step.locator(".line.add", has_text="torch.autocast").get_by_role("link").click()
    expect(page.locator(".line:target")).to_contain_text("torch.autocast")
