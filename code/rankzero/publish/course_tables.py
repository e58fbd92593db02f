"""Course tables of for-instructors.md: the labs of a course over its weeks, with minutes and chapters from lab.toml.

A block (`generated_blocks.py`) names the number of weeks; COURSES says which labs such a course has::

    <!-- course: 10 weeks -->
    <!-- /course -->
"""

import os
from collections.abc import Sequence
from pathlib import Path

from rankzero.curriculum import Lab, all_labs
from rankzero.publish.generated_blocks import fill_blocks

# Labs of a course by its weeks; None: all labs.
COURSES: dict[int, tuple[str, ...] | None] = {
    5: ("02", "03", "04", "05", "06", "07", "08"),
    10: ("00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10"),
    15: None,
}


def fill(page: Path, text: str, root: Path) -> str:
    """Returns `text`, the text of `page`, with its course tables filled. UserError for a course of other weeks."""

    def table(source: str, _: str) -> str:
        weeks = int(source.removesuffix(" weeks")) if source.removesuffix(" weeks").isdecimal() else 0
        if weeks not in COURSES:
            raise LookupError(f"there is no such course; the courses have {', '.join(map(str, COURSES))} weeks")
        chosen = COURSES[weeks]
        labs = [lab for lab in all_labs(root) if chosen is None or lab.number in chosen]
        labs.sort(key=lambda lab: lab.number)
        return _table(labs, weeks, page.parent)

    return fill_blocks(page, text, "course", table)


def schedule(minutes: Sequence[int], weeks: int) -> list[list[int]]:
    """Returns for each row of a timetable the indexes of its labs, in order, so that the longest week is shortest.

    With fewer labs than weeks each lab has a row of its own, and may take several weeks (`weeks_of`).
    """
    if len(minutes) <= weeks:
        return [[lab] for lab in range(len(minutes))]
    # best[count][end]: the longest week of the first `end` labs in `count` weeks, and where the last week begins.
    best = [{0: (0, 0)}]
    for count in range(1, weeks + 1):
        best.append(
            {
                end: min((max(best[-1][start][0], sum(minutes[start:end])), start) for start in best[-1] if start < end)
                for end in range(count, len(minutes) + 1)
            }
        )
    rows, end = [], len(minutes)
    for count in range(weeks, 0, -1):
        start = best[count][end][1]
        rows.append(list(range(start, end)))
        end = start
    return rows[::-1]


def weeks_of(minutes: Sequence[int], weeks: int) -> list[int]:
    """Returns the weeks of each row: one each; every week left over goes to the row with most minutes per week."""
    spans = [1] * len(minutes)
    for _ in range(weeks - len(minutes)):
        spans[max(range(len(minutes)), key=lambda row: minutes[row] / spans[row])] += 1
    return spans


def _table(labs: Sequence[Lab], weeks: int, folder: Path) -> str:
    rows = schedule([lab.minutes for lab in labs], weeks)
    minutes = [sum(labs[index].minutes for index in row) for row in rows]
    lines, first = ["| week | labs | chapters | minutes per week |", "|---|---|---|---|"], 1
    for row, total, span in zip(rows, minutes, weeks_of(minutes, weeks), strict=True):
        last = first + span - 1
        taken = [labs[index] for index in row]
        names = ", ".join(f"[{lab.number} {lab.title}]({os.path.relpath(lab.page, folder)})" for lab in taken)
        chapters = dict.fromkeys(chapter for lab in taken for chapter in lab.chapters)
        reading = ", ".join(f"[{_title(chapter)}]({os.path.relpath(chapter, folder)})" for chapter in chapters)
        lines.append(f"| {first if span == 1 else f'{first}–{last}'} | {names} | {reading} | {round(total / span)} |")
        first = last + 1
    return "\n".join([*lines, f"| all | {len(labs)} labs | | {sum(minutes)} in all |"]) + "\n"


def _title(chapter: Path) -> str:
    return chapter.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
