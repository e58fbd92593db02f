"""Adjustments: OUT/adjustments.csv, in which people decide on points and deadlines. No run changes a row of it."""

import csv
import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import exercises_of
from rankzero.grading.grade import Adjustment, Grade
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.report.gradebook_csv import cell

FILE = "adjustments.csv"
MAX_MISTAKES = 10  # that are named at once
COLUMNS = ("student", "lab", "exercise", "points", "change", "extension_hours", "comment", "who", "when")


def read_adjustments(out: Path, labs: Sequence[Lab], students: Collection[str]) -> list[Adjustment]:
    """Returns the rows of OUT/adjustments.csv, in their order; writes the file with its first line if there is none.

    A student is named by the id, which `students` holds. UserError names the file, and each line with its mistake.
    """
    file = out / FILE
    if not file.exists():
        write_atomically(file, ",".join(COLUMNS) + "\n")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read ({error}): save it as CSV in UTF-8.") from None
    first = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text), delimiter=";" if ";" in first else ",")
    names = [name.strip().lower() for name in next(rows, [])]
    if unknown := [name for name in names if name and name not in COLUMNS] or ["nothing"] * ("student" not in names):
        raise UserError(f"{file}, line 1: its columns are {', '.join(COLUMNS)}; this line has {unknown[0]!r}.")
    # A spreadsheet writes an id that looks like a formula as grades.csv has it, with an apostrophe.
    ids = {cell(student): student for student in students} | {student: student for student in students}
    adjustments, mistakes = [], []
    for values in rows:
        row = {name: value.strip() for name, value in zip(names, values, strict=False)}
        if any(row.values()):
            try:
                adjustments.append(_adjustment(row, {lab.number: lab for lab in labs}, ids))
            except UserError as error:
                mistakes.append(f"line {rows.line_num}: {error}")
    if mistakes:
        more = [f"and {len(mistakes) - MAX_MISTAKES} more lines."] if len(mistakes) > MAX_MISTAKES else []
        raise UserError(f"{file}, " + "\n".join([*mistakes[:MAX_MISTAKES], *more]))
    return adjustments


def _adjustment(row: Mapping[str, str], labs: Mapping[str, Lab], ids: Mapping[str, str]) -> Adjustment:
    get = {name: row.get(name, "") for name in COLUMNS}
    number = get["lab"].removeprefix("lab-").zfill(2) if get["lab"] else ""
    if not get["student"]:
        raise UserError("the student is missing: write the id, as in grades.csv.")
    if get["student"] not in ids:
        name = printable(get["student"])
        raise UserError(f"no student of this class is called {name!r}; grades.csv lists the ids.")
    if number and number not in labs:
        raise UserError(f"lab {printable(get['lab'])!r} is not graded here; the labs are {', '.join(labs)}.")
    if get["exercise"]:
        names = [exercise.name for exercise in exercises_of(labs[number])] if number else []
        if get["exercise"] not in names:
            place = f"the exercises of lab {number} are {', '.join(names)}" if number else "name its lab too"
            raise UserError(f"exercise {printable(get['exercise'])!r}: {place}.")
    points, change = _number(get["points"], "points"), _number(get["change"], "change")
    if get["points"].startswith(("+", "-", "\u2212")) and get["change"]:
        raise UserError("both points and change have a sign: give one of the two.")
    if get["points"].startswith(("+", "-", "\u2212")):
        points, change = None, points
    hours = _number(get["extension_hours"], "extension_hours")
    if points is None and change is None and hours is None:
        raise UserError("it changes nothing: give points, change or extension_hours.")
    if (points is not None or change is not None) and not number:
        raise UserError("points belong to a lab: name it.")
    if hours is not None and get["exercise"]:
        raise UserError("a deadline belongs to a lab, not to an exercise: leave the exercise out.")
    if hours is not None and hours < 0:
        raise UserError(f"extension_hours is {hours:g}: a deadline can only be later.")
    texts = {name: get[name] for name in ("exercise", "comment", "who", "when")}
    return Adjustment(ids[get["student"]], number, points=points, change=change, extension_hours=hours, **texts)


def _number(text: str, column: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text.replace("\u2212", "-").replace(",", "."))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{column} is {printable(text)!r}: it must be a number.")
    return number


def with_adjustments(grades: Sequence[Grade], adjustments: Sequence[Adjustment]) -> list[Grade]:
    """Returns the grades, each with the adjustments of its student and lab."""

    def own(grade: Grade) -> tuple[Adjustment, ...]:
        student_id, lab = grade.submission.student.student_id, grade.submission.lab
        return tuple(row for row in adjustments if row.student == student_id and row.lab in ("", lab))

    return [replace(grade, adjustments=own(grade)) for grade in grades]
