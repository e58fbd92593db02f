"""Differences between the published grades and new ones: a table that is written before any grade is replaced."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.grading.grade import Adjustment, Grade, Student
from rankzero.grading.report.gradebook_csv import cell

FILE = "differences.csv"


@dataclass(frozen=True)
class Difference:
    """One number of a student's grade that changes. `what` is a check, "late work", "adjustment" or "score"."""

    lab: str
    student: Student
    what: str
    before: str  # points, empty where there was no grade
    after: str
    reason: str


def differences(before: Mapping[tuple[str, str], Grade], after: Sequence[Grade]) -> list[Difference]:
    """Returns the numbers that differ from the published grades, given by lab and student, without new students."""
    found: list[Difference] = []
    for grade in after:
        key = (grade.submission.lab, grade.submission.student.student_id)
        if key in before:
            rows = [row for row in _compared(before[key], grade) if row[1] != row[2]]
            found += [Difference(key[0], grade.submission.student, *row) for row in rows]
    return found


def _compared(before: Grade, after: Grade) -> Iterator[tuple[str, str, str, str]]:
    """Yields what, before, after and reason of each difference."""
    new_file = before.submission.sha256 != after.submission.sha256
    if before.report and after.report:
        yield from _compared_checks(before, after, "another file was handed in" if new_file else "")
    elif bool(before.report) != bool(after.report) or before.trouble != after.trouble:
        reason = "another file was handed in" if new_file else "grading failed" if after.trouble else "graded again"
        yield "all checks", _points(before), _points(after), reason
    if (before.late_days, before.late_penalty) != (after.late_days, after.late_penalty):
        reason = "another deadline, late policy or number of points"
        if before.extension_hours != after.extension_hours:
            reason = f"the deadline is {after.extension_hours:g} hours later"
        elif before.submission.submitted_at != after.submission.submitted_at:
            reason = "another time of hand-in"
        days = f"{before.late_days} days late, now {after.late_days}"
        yield "late work", f"{-before.late_penalty:g}", f"{-after.late_penalty:g}", f"{days}: {reason}"
    yield from _compared_adjustments(before, after)
    if _points(before, score=True) != _points(after, score=True):
        yield "score", _points(before, score=True), _points(after, score=True), ""


def _points(grade: Grade, score: bool = False) -> str:
    return f"{grade.score if score else grade.points:g}" if (grade.counts if score else grade.gradable) else ""


def _compared_adjustments(before: Grade, after: Grade) -> Iterator[tuple[str, str, str, str]]:
    """Yields a row for each adjustment that has been taken back or is new, with the scores before and after it."""
    kept = [row for row in before.adjustments if row in after.adjustments]
    new = [row for row in after.adjustments if row not in kept]
    for row in (row for row in before.adjustments if row not in kept):
        rest = tuple(other for other in before.adjustments if other != row)
        yield "adjustment", _with(before, before.adjustments), _with(before, rest), f"taken back: {_reason(row)}"
    for number, row in enumerate(new):
        applied = (*kept, *new[:number])
        yield "adjustment", _with(after, applied), _with(after, (*applied, row)), _reason(row)


def _with(grade: Grade, rows: Sequence[Adjustment]) -> str:
    """Returns the score with these adjustments."""
    return _points(replace(grade, adjustments=tuple(rows)), score=True)


def _reason(row: Adjustment) -> str:
    return ": ".join(filter(None, (row.who, row.text, row.comment)))


def _compared_checks(before: Grade, after: Grade, reason: str) -> Iterator[tuple[str, str, str, str]]:
    assert before.report
    assert after.report
    old = {result.check: result for result in before.report.results}
    new = {result.check: result for result in after.report.results}
    for name in dict.fromkeys((*old, *new)):
        one, other = old.get(name), new.get(name)
        if one is None or other is None:
            points = (f"{one.points if one else 0}", f"{other.points if other else 0}")
            yield name, *points, "a new check" if other else "a check that is no more"
        elif (one.status, one.points, one.max_points) != (other.status, other.points, other.max_points):
            why = [reason] if reason else []
            if one.max_points != other.max_points:
                why.append(f"worth {other.max_points} instead of {one.max_points} points")
            if one.status != other.status:
                same = before.digests.get(name) == after.digests.get(name)
                why += [] if reason else ["graded again" if same else "the check has changed"]
                why.append(f"{one.status}, now {other.status}")
            yield name, f"{one.points}", f"{other.points}", "; ".join(why)


def grouped(rows: Sequence[Difference]) -> list[tuple[Difference, int]]:
    """Returns one of the equal differences of several students with their number, most frequent first."""
    counts = Counter((row.lab, row.what, row.before, row.after, row.reason) for row in rows)
    first = {(row.lab, row.what, row.before, row.after, row.reason): row for row in reversed(rows)}
    return [(first[key], count) for key, count in counts.most_common()]


def append_differences(rows: Sequence[Difference], out: Path, when: str) -> None:
    """Appends the differences to OUT/differences.csv; `when` is ISO 8601. Nothing is written if there are none."""
    file = out / FILE
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    if not file.exists():
        text.write("when,lab,student_id,check,before,after,reason\n")
    for row in rows:
        numbers = [float(points) if points else "" for points in (row.before, row.after)]
        writer.writerow([when, row.lab, cell(row.student.student_id), row.what, *numbers, cell(row.reason)])
    if rows:
        write_atomically(file, (file.read_text(encoding="utf-8") if file.exists() else "") + text.getvalue())
