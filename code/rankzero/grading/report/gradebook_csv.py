"""Gradebook: grades.csv, with the columns of nbgrader's exporter.

A spreadsheet runs a cell that begins like a formula, and students choose these texts. So text cells are one line,
quoted, and begin with an apostrophe where they would begin like a formula. Numbers stay numbers.
"""

import csv
import io
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.exercises.checks.escape_text import escape_name
from rankzero.grading.grade import Grade

HEADER = (
    "assignment,duedate,timestamp,student_id,last_name,first_name,email,"
    "raw_score,late_submission_penalty,score,max_score\n"
)
FORMULA = tuple("=+-@\u2212|%")  # the last two start a program in old spreadsheets
SKIPPED = " \t\r\n'\"`\u2018\u2019\u201c\u201d"  # that a program may remove from a cell


def write_gradebook(grades: Sequence[Grade], path: Path, duedates: Mapping[str, str]) -> None:
    """Writes one row for each student and lab; `duedates` by the lab's number, ISO 8601.

    As nbgrader does it, times are UTC without a zone, and a student who handed in nothing has no timestamp and the
    score 0. If grading itself failed, or a person has yet to decide what was handed in, the score is empty, not zero.
    """
    text = io.StringIO()
    text.write(HEADER)
    rows = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for grade in sorted(grades, key=lambda grade: (grade.submission.lab, grade.submission.student.student_id)):
        rows.writerow(_row(grade, duedates.get(grade.submission.lab, "")))
    write_atomically(path, text.getvalue())


def _row(grade: Grade, due: str) -> list[str | float]:
    submission, student = grade.submission, grade.submission.student
    names = (student.student_id, student.last_name, student.first_name, student.email)
    scores = (grade.raw_score, grade.late_penalty, grade.score)
    return [
        f"lab-{submission.lab}",
        _utc(due),
        _utc(submission.submitted_at),
        *map(cell, names),
        *((float(score) for score in scores) if grade.counts else ("", "", "")),
        float(grade.max_points),
    ]


def cell(text: str) -> str:
    """Returns `text` as a cell that no spreadsheet takes for a formula."""
    # A program that separates cells at `;` splits quoted cells too.
    return ";".join(map(_escape_formula, escape_name(text).split(";")))


def _escape_formula(text: str) -> str:
    first = unicodedata.normalize("NFKC", "".join(c for c in text if c.isprintable())).lstrip(SKIPPED)
    return f"'{text}" if first.startswith(FORMULA) else text


def _utc(text: str) -> str:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return cell(text)
    return str((when.astimezone(UTC) if when.tzinfo else when).replace(tzinfo=None, microsecond=0))
