"""HTML pages: one for the class and one per student, without scripts or external files.

All text that a student can influence is hostile. Everything that a template prints is made visible (`finalize`) and
then escaped (`autoescape`), and templates put no such text into attributes.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import ROOT, Lab, find_lab
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.escape_text import escape_name, escape_text
from rankzero.exercises.checks.page_headings import page_headings
from rankzero.exercises.checks.report import Report, Result
from rankzero.grading.grade import Grade, Student
from rankzero.grading.intake.safe_names import safe_name
from rankzero.grading.report.class_statistics import lab_statistics
from rankzero.grading.report.differences import Difference
from rankzero.grading.report.feedback_text import NOTE_LIMIT, notes
from rankzero.grading.scan.code_similarity import PUBLISHED

WORDS = {
    "pass": "passes",
    "fail": "fails",
    "error": "error",
    "timeout": "too slow",
    "oom": "out of memory",
    "killed": "crashed",
    "skipped": "blocked",
}


def write_pages(
    grades: Sequence[Grade], out: Path, due: Mapping[str, str], changes: Sequence[Difference] = ()
) -> set[Path]:
    """Writes out/index.html and out/students/STUDENT.html for each student. Returns the students' files.

    `due` is the deadline by lab number; `changes` are the differences from the grades before.
    """
    pages = {out / _page(student_id): own for student_id, own in _by_student(grades).items()}
    for path, student_grades in pages.items():
        write_atomically(path, student_page(student_grades, due))
    predictions = (out / "predictions.html").exists()
    write_atomically(out / "index.html", class_page(grades, changes, predictions=predictions))
    return set(pages)


def student_page(grades: Sequence[Grade], due: Mapping[str, str]) -> str:
    """Returns the page of one student with these grades."""
    labs = [LabOfStudent(find_lab(grade.submission.lab), grade) for grade in grades]
    return render("student.html", grades, student=_student_of(grades), labs=labs, due=due)


def class_page(grades: Sequence[Grade], changes: Sequence[Difference] = (), *, predictions: bool = False) -> str:
    """Returns the page of the class, with students sorted by last name, first name and id.

    With `predictions` it links to OUT/predictions.html.
    """
    by_lab: dict[str, list[Grade]] = {}
    for grade in sorted(grades, key=lambda grade: grade.submission.lab):
        by_lab.setdefault(grade.submission.lab, []).append(grade)
    labs = [lab_statistics(find_lab(number), lab_grades) for number, lab_grades in by_lab.items()]
    rows = [
        {"student": _student_of(of_student), "by_lab": {grade.submission.lab: grade for grade in of_student}}
        for of_student in _by_student(grades).values()
    ]
    return render("class.html", grades, rows=rows, labs=labs, changes=changes, predictions=predictions)


@dataclass(frozen=True)
class LabOfStudent:
    """One lab on a student's page."""

    lab: Lab
    grade: Grade

    @property
    def report(self) -> Report | None:
        """Returns the report, or None if no check was judged."""
        return self.grade.report if self.grade.gradable else None

    def results(self, exercise: Exercise) -> list[Result]:
        """Returns the results of an exercise's checks."""
        return [result for result in self.report.results if result.exercise == exercise.name] if self.report else []

    def groups(self, exercise: Exercise) -> list[dict[str, Any]]:
        """Returns `results` and `text` of each group of consecutive checks with the same cause."""
        grouped = itertools.groupby(self.results(exercise), lambda result: (result.status, result.text))
        return [{"results": list(results), "text": text} for (_, text), results in grouped]

    def printed(self, exercise: Exercise) -> str:
        """Returns the beginning of the code's printed output."""
        return next((result.printed for result in self.results(exercise) if result.printed.strip()), "")

    @property
    def says(self) -> dict[str, str]:
        """Returns each check's statement, by the check's name."""
        return {check.name: check.says for exercise in exercises_of(self.lab) for check in exercise.checks}

    @property
    def begin_with(self) -> Exercise | None:
        """Returns the first exercise with a failing check."""
        results = self.report.results if self.report else ()
        failing = {result.exercise for result in results if result.status not in ("pass", "skipped")}
        return next((exercise for exercise in exercises_of(self.lab) if exercise.name in failing), None)


def render(template: str, grades: Sequence[Grade], **values: Any) -> str:
    """Returns a page of the folder templates/, with all text of students escaped."""
    trusted = any(grade.isolation != "sandbox" for grade in grades)
    return _environment().get_template(template).render(trusted=trusted, grades=grades, **values)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=lambda value: (
            escape_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": lambda value: f"{round(value, 2):g}",
        "moment": _moment,
        "name": lambda student: escape_name(student.full_name or student.student_id),
        "page": _page,
        "prose": _prose,
        "line": escape_name,
        "sentence": functools.partial(escape_text, limit=NOTE_LIMIT, lines=False),
        "word": WORDS.get,
    }
    environment.globals |= {
        "exercises_of": exercises_of,
        "heading_of": heading_of,
        "notes": notes,
        "code_page": code_page,
    }
    return environment


def heading_of(read: str) -> tuple[str, str]:
    """Returns the titles of chapter and heading that a path such as handbook/training-loop.md#the-order points to."""
    page, _, anchor = read.partition("#")
    headings = page_headings(ROOT / page)
    return next(iter(headings.values()), page), headings.get(anchor, "")


def _by_student(grades: Sequence[Grade]) -> dict[str, list[Grade]]:
    """Returns each student's grades by lab, with students sorted by last name, first name and id."""

    def sort_key(grade: Grade) -> tuple[str, ...]:
        student = grade.submission.student
        return *map(str.casefold, (student.last_name, student.first_name, student.student_id)), grade.submission.lab

    students: dict[str, list[Grade]] = {}
    for grade in sorted(grades, key=sort_key):
        students.setdefault(grade.submission.student.student_id, []).append(grade)
    return students


def _student_of(grades: Sequence[Grade]) -> Student:
    students = (grade.submission.student for grade in grades)
    return max(students, key=lambda student: len(student.last_name + student.email))


def _page(student_id: str) -> str:
    return f"students/{safe_name(student_id)}.html"


def code_page(grade: Grade, partner: str | None = None) -> str:
    """Returns the path in OUT of a submission's code, or of the page that shows it beside a similar submission."""
    submission = grade.submission
    beside = "published" if partner == PUBLISHED else safe_name(partner or "")
    name = safe_name(submission.student.student_id) + ("" if partner is None else f"--{beside}")
    return f"code/{submission.lab}/{name}.html"


def _prose(text: str) -> Markup:
    """Returns HTML of text with `code` in it."""
    parts = enumerate(escape_text(text).split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else escape(part) for n, part in parts)


def _moment(text: str, like: str = "") -> str:
    """Returns '18 November 2026, 14:20 +01:00' for an ISO 8601 time, in the zone of `like`; other text unchanged."""
    try:
        when = datetime.fromisoformat(text)
        if like and when.tzinfo:
            when = when.astimezone(datetime.fromisoformat(like).tzinfo)
    except (ValueError, OverflowError):
        return escape_name(text)
    zone = f"{when:%z}"
    zone = "UTC" if zone == "+0000" else f"{zone[:3]}:{zone[3:]}" if zone else ""
    return f"{when.day} {when:%B %Y, %H:%M} {zone}".strip()
