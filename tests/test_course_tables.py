"""Generated tables: a course over its weeks, and the sources that other pages cite."""

from pathlib import Path

import pytest

from rankzero.curriculum import ROOT, all_labs
from rankzero.errors import UserError
from rankzero.publish import course_tables, source_list
from rankzero.publish.course_tables import COURSES, schedule, weeks_of

BLOCK = "<!-- course: {} weeks -->\n<!-- /course -->\n"


@pytest.mark.parametrize(
    ("minutes", "weeks", "rows"),
    [
        ([10, 10, 10, 10], 2, [[0, 1], [2, 3]]),
        ([10, 10, 40, 10], 3, [[0, 1], [2], [3]]),
        ([90, 10, 10, 10], 2, [[0], [1, 2, 3]]),
        ([5, 5], 3, [[0], [1]]),
    ],
)
def test_the_longest_week_is_as_short_as_it_can_be(minutes: list[int], weeks: int, rows: list[list[int]]) -> None:
    assert schedule(minutes, weeks) == rows


def test_weeks_left_over_go_to_the_longest_labs() -> None:
    assert weeks_of([60, 200, 90], 6) == [1, 3, 2]
    assert weeks_of([60, 200, 90], 3) == [1, 1, 1]


@pytest.mark.parametrize("weeks", COURSES)
def test_a_course_has_its_labs_once_and_their_minutes(weeks: int) -> None:
    page = ROOT / "handbook" / "for-instructors.md"
    table = course_tables.fill(page, BLOCK.format(weeks), ROOT)
    chosen = COURSES[weeks]
    labs = [lab for lab in all_labs() if chosen is None or lab.number in chosen]
    for lab in labs:
        assert table.count(f"[{lab.number} {lab.title}](../labs/{lab.slug}.md)") == 1
    assert f"| all | {len(labs)} labs | | {sum(lab.minutes for lab in labs)} in all |" in table
    last_week = table.splitlines()[-3].split("|")[1].strip().split("–")[-1]
    assert last_week == str(weeks)


def test_a_course_of_other_weeks_is_refused() -> None:
    with pytest.raises(UserError, match="there is no such course; the courses have 5, 10, 15 weeks"):
        course_tables.fill(Path("page.md"), BLOCK.format(7), ROOT)


def test_a_source_is_listed_once_with_its_pages_unless_the_page_names_it(tmp_path: Path) -> None:
    handbook, labs = tmp_path / "handbook", tmp_path / "labs"
    for folder in (handbook, labs):
        folder.mkdir()
    (handbook / "one.md").write_text("# One\n[a](https://arxiv.org/abs/1.2#part) [b](https://known.org)\n")
    (labs / "lab-07-x.md").write_text("# Lab\n[c](https://arxiv.org/abs/1.2) [d](https://github.com/o/r)\n")
    (handbook / "source_titles.toml").write_text('"3.4" = "Titled"\n')
    (handbook / "two.md").write_text("# Two\n[f](https://arxiv.org/abs/3.4)\n")
    (handbook / "claims.md").write_text("# Claims\n[e](https://claims.org)\n")
    page = handbook / "list.md"
    text = "# List\n[known](https://known.org)\n<!-- sources: of other pages -->\n<!-- /sources -->\n"
    page.write_text(text)
    filled = source_list.fill(page, text, tmp_path)
    assert "| [arXiv 1.2](https://arxiv.org/abs/1.2) | [One](one.md), [Lab](../labs/lab-07-x.md) |" in filled
    assert "| [github.com/o/r](https://github.com/o/r) | [Lab](../labs/lab-07-x.md) |" in filled
    assert filled.count("https://arxiv.org/abs/1.2") == filled.count("https://known.org") == 1
    assert "| [Titled, arXiv 3.4](https://arxiv.org/abs/3.4) | [Two](two.md) |" in filled
    assert "claims.org" not in filled
    assert source_list.fill(page, filled, tmp_path) == filled


def test_an_unknown_list_is_refused() -> None:
    with pytest.raises(UserError, match="there is no such list"):
        source_list.fill(Path("page.md"), "<!-- sources: all -->\n<!-- /sources -->\n", ROOT)
