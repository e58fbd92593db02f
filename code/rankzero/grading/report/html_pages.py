"""HTML pages: one for the class and one per student, without scripts or external files.

All text that a student can influence is hostile. Everything that a template prints is made visible (`finalize`) and
then escaped (`autoescape`), and templates put no such text into attributes.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import ROOT, Lab, find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.escape_text import escape_name, escape_text
from rankzero.exercises.checks.report import Report, Result
from rankzero.grading.grade import Grade, Student
from rankzero.grading.intake.safe_names import safe_name
from rankzero.grading.report.class_statistics import by_lab
from rankzero.grading.report.feedback_text import NOTE_LIMIT, notes

WORDS = {
    "pass": "passes",
    "fail": "fails",
    "error": "error",
    "timeout": "too slow",
    "oom": "out of memory",
    "killed": "crashed",
    "skipped": "blocked",
}


@dataclass(frozen=True)
class PageSettings:
    """The facts on the pages beside the grades."""

    title: str = "Rank Zero"  # of the class page
    book: str = ""  # where the handbook can be read: references to chapters become links below it
    due: Mapping[str, str] = field(default_factory=dict)  # the deadline of each lab, by its number

    def __post_init__(self) -> None:
        if self.book and not self.book.startswith(("https://", "http://")):
            raise UserError(f"the handbook's address {self.book!r} must begin with https:// or http://.")


def write_pages(grades: Sequence[Grade], out: Path, settings: PageSettings | None = None) -> None:
    """Writes out/index.html and out/students/STUDENT.html for each student in `grades`."""
    settings = settings or PageSettings()
    labs = [find_lab(number) for number in sorted({grade.submission.lab for grade in grades})]
    students = _by_student(grades)
    for student, own in students.items():
        write_atomically(out / "students" / f"{safe_name(student)}.html", student_page(own, settings))
    write_atomically(out / "index.html", class_page(students, labs, grades, settings))


def student_page(grades: Sequence[Grade], settings: PageSettings) -> str:
    """Returns the page of one student with these grades."""
    labs = [LabOfStudent(find_lab(grade.submission.lab), grade) for grade in grades]
    return _render("student.html", grades, settings, student=_student_of(grades), labs=labs)


def class_page(
    students: Mapping[str, Sequence[Grade]], labs: Sequence[Lab], grades: Sequence[Grade], settings: PageSettings
) -> str:
    """Returns the page of the class; `students` are grades by id, in the order of the page."""
    rows = [
        {"student": _student_of(own), "page": f"students/{safe_name(name)}.html", "by_lab": _grades_by_lab(own)}
        for name, own in students.items()
    ]
    pages = {name: f"students/{safe_name(name)}.html" for name in students}
    return _render("class.html", grades, settings, rows=rows, pages=pages, labs=by_lab(grades, labs))


@dataclass(frozen=True)
class Group:
    """Consecutive checks of one exercise with the same cause."""

    results: tuple[Result, ...]
    text: str


@dataclass(frozen=True)
class LabOfStudent:
    """One lab on a student's page."""

    lab: Lab
    grade: Grade

    @property
    def report(self) -> Report | None:
        """Returns the report, or None where nothing was judged."""
        return self.grade.report if self.grade.gradable else None

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        """Returns the lab's exercises."""
        return exercises_of(self.lab)

    def results(self, exercise: Exercise) -> list[Result]:
        """Returns the results of an exercise's checks."""
        return [result for result in self.report.results if result.exercise == exercise.name] if self.report else []

    def points(self, exercise: Exercise) -> int:
        """Returns the points that the exercise earned."""
        return sum(result.points for result in self.results(exercise))

    def groups(self, exercise: Exercise) -> list[Group]:
        """Returns the results, grouped by cause."""
        grouped = itertools.groupby(self.results(exercise), lambda result: (result.status, result.text))
        return [Group(tuple(results), text) for (_, text), results in grouped]

    def printed(self, exercise: Exercise) -> str:
        """Returns the beginning of the code's printed output."""
        return next((result.printed for result in self.results(exercise) if result.printed.strip()), "")

    @property
    def says(self) -> dict[str, str]:
        """Returns each check's statement, by the check's name."""
        return {check.name: check.says for exercise in self.exercises for check in exercise.checks}

    @property
    def begin_with(self) -> Exercise | None:
        """Returns the first exercise with a failing check."""
        results = self.report.results if self.report else ()
        failing = {result.exercise for result in results if result.status not in ("pass", "skipped")}
        return next((exercise for exercise in self.exercises if exercise.name in failing), None)


def _render(template: str, grades: Sequence[Grade], settings: PageSettings, **values: Any) -> str:
    trusted = any(grade.isolation != "sandbox" for grade in grades)
    return _environment().get_template(template).render(settings=settings, trusted=trusted, grades=grades, **values)


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
        "number": _number,
        "moment": _moment,
        "name": _name,
        "line": escape_name,
        "sentence": functools.partial(escape_text, limit=NOTE_LIMIT, lines=False),
        "word": WORDS.get,
    }
    environment.filters["prose"] = _prose
    environment.globals |= {"heading_of": heading_of, "notes": notes}
    return environment


def heading_of(read: str) -> tuple[str, str]:
    """Returns the titles of chapter and heading that a path such as handbook/training-loop.md#the-order points to."""
    page, _, anchor = read.partition("#")
    headings = _headings(page)
    return headings.get("", page), headings.get(anchor, "") if anchor else ""


@functools.cache
def _headings(page: str) -> dict[str, str]:
    """Returns a page's headings by their anchors; the title has the anchor ''."""
    try:
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    texts = [line.lstrip("#").strip().replace("`", "") for line in lines if line.startswith("#")]
    anchors = {"".join(c for c in text.lower().replace(" ", "-") if c.isalnum() or c in "-_"): text for text in texts}
    return anchors | {"": texts[0]} if texts else {}


def _by_student(grades: Sequence[Grade]) -> dict[str, list[Grade]]:
    """Returns each student's grades by lab, with students sorted by last name, first name and id."""
    ordered = sorted(grades, key=lambda grade: (*_sort_key(grade.submission.student), grade.submission.lab))
    students: dict[str, list[Grade]] = {}
    for grade in ordered:
        students.setdefault(grade.submission.student.student_id, []).append(grade)
    return students


def _sort_key(student: Student) -> tuple[str, ...]:
    return (student.last_name.casefold(), student.first_name.casefold(), student.student_id.casefold())


def _student_of(grades: Sequence[Grade]) -> Student:
    return max(
        (grade.submission.student for grade in grades), key=lambda student: len(student.last_name + student.email)
    )


def _grades_by_lab(grades: Sequence[Grade]) -> dict[str, Grade]:
    return {grade.submission.lab: grade for grade in grades}


def _name(student: Student) -> str:
    full = f"{student.first_name} {student.last_name}".strip()
    return escape_name(full or student.student_id)


def _prose(text: str) -> Markup:
    """Returns HTML of text with `code` in it."""
    parts = enumerate(escape_text(text).split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else escape(part) for n, part in parts)


def _number(value: float) -> str:
    return f"{round(value, 2):g}"


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
