"""Course systems' gradebooks: canvas.csv and moodle.csv, with one row per student and one column per lab.

Canvas finds a student by the SIS user id, then by the login, then by the name, and wants a row of points possible
(lib/gradebook_importer.rb of canvas-lms, read 2026-11-22). Moodle asks which column identifies the student
(https://docs.moodle.org/311/en/Grade_import).
"""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import find_lab
from rankzero.grading.grade import Grade, Student
from rankzero.grading.report.gradebook_csv import cell

Cell = str | float


def write_course_gradebooks(grades: Sequence[Grade], out: Path) -> None:
    """Writes OUT/canvas.csv and OUT/moodle.csv. A score is empty where nothing was graded, so that it stays open."""
    by_student: dict[str, dict[str, Grade]] = {}
    for grade in sorted(grades, key=lambda grade: grade.submission.student.student_id):
        by_student.setdefault(grade.submission.student.student_id, {})[grade.submission.lab] = grade
    labs = sorted({grade.submission.lab for grade in grades})
    titles = [f"Lab {number}: {find_lab(number).title}" for number in labs]
    most = [float(max(grade.max_points for grade in grades if grade.submission.lab == number)) for number in labs]
    students = [next(iter(own.values())).submission.student for own in by_student.values()]
    scores = [[_score(own.get(number)) for number in labs] for own in by_student.values()]
    canvas: list[list[Cell]] = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles]]
    canvas.append(["    Points Possible", "", "", "", "", *most])
    canvas += [[*_canvas_names(student), *values] for student, values in zip(students, scores, strict=True)]
    moodle: list[list[Cell]] = [["First name", "Last name", "ID number", "Email address", *titles]]
    for student, values in zip(students, scores, strict=True):
        names = (student.first_name, student.last_name, student.student_id, student.email)
        moodle.append([*map(cell, names), *values])
    write_atomically(out / "canvas.csv", _csv(canvas))
    write_atomically(out / "moodle.csv", _csv(moodle))


def _canvas_names(student: Student) -> list[Cell]:
    """Returns the cells that identify a student, as Canvas's own gradebook has them if the roster came from there."""
    # A row whose first cell holds these words sets the points of an assignment.
    name = (student.full_name or student.student_id).replace("Points Possible", "Points-Possible")
    sis, login = student.student_id, student.login or student.email or student.student_id
    if student.lms_id:
        sis, login = "" if sis in (student.login, student.lms_id) else sis, student.login
    return [cell(name), cell(student.lms_id), cell(sis), cell(login), ""]


def _score(grade: Grade | None) -> Cell:
    return float(grade.score) if grade and grade.counts and (grade.report or grade.decided) else ""


def _csv(rows: Iterable[Sequence[Cell]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerows(rows)
    return text.getvalue()
