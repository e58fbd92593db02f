"""Reports: pages, gradebook, Gradescope, GitHub Classroom and terminal, also with hostile text."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from rankzero.curriculum import Grading, find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.escape_text import MARKS, escape_text
from rankzero.exercises.checks.report import Diagnosis, Report, Result
from rankzero.grading.batch import with_flags, write_reports
from rankzero.grading.grade import Adjustment, Flag, Grade, Student, Submission
from rankzero.grading.intake.notebook_predictions import Prediction, read_notebook
from rankzero.grading.intake.safe_names import safe_name
from rankzero.grading.report import github_classroom_results, gradebook_csv, gradescope_results, html_pages
from rankzero.grading.report.course_csv import write_course_gradebooks
from rankzero.grading.report.predictions_report import write_predictions
from rankzero.grading.report.terminal_feedback import show

LAB = find_lab("02")
CHECKS = [(exercise.name, check) for exercise in exercises_of(LAB) for check in exercise.checks]
STUDENT = Student("s7", "Lovelace", "Ada", "ada@example.edu")
DIAGNOSIS = Diagnosis(
    "train_step",
    "cleared_too_late",
    "The gradients are cleared after the update, not before.",
    "handbook/training-loop.md#the-order-of-the-calls",
    ("train_step/stale",),
)
DUE = {"02": "2026-11-18T23:59:00+01:00"}

HOSTILE_TEXTS = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "</style><svg onload=alert(1)>",
    "</title><iframe src=javascript:alert(1)></iframe>",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "javascript:alert(1)//",
    "url(http://evil.example/x.png);}</style>",
    "&lt;b&gt; &amp; &#60;i>",
    "]]><!--",
    "\x1b[2J\x1b]0;owned\x07\x9b31m",
    "\u202egnp.exe\u2069\u200b\ufeff\u2028\x00\r\n",
    "half a pair \ud83d",
    "z" + "\u0300" * 80,
    "[red]markup[/red] :skull: [link=http://evil.example]x[/link]",
    "::notice title=Autograding report::{}\n::set-env::x ##[add-mask]x",
    "=HYPERLINK(1)",
    "x" * 100_000,
]
NAMES = {"meta", "html", "head", "title", "style", "body", "header", "main", "nav", "section", "div", "p", "span"}
NAMES |= {"h1", "h2", "h3", "h4", "ul", "ol", "li", "a", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl"}
NAMES |= {"dt", "dd", "pre", "code", "em", "strong", "details", "summary", "svg", "line", "rect", "text"}
ATTRIBUTES = {
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "class",
    "role",
    "aria-label",
    "aria-labelledby",
    "id",
}
ATTRIBUTES |= {"href", "scope", "tabindex", "aria-hidden", "aria-level", "style", "open", "start", "rel", "viewbox"}
ATTRIBUTES |= {"x", "y", "x1", "x2", "y1", "y2", "width", "height", "transform"}


def graded(failing: tuple[str, ...] = (), text: str = "the loss is 1; expected 2.", **changes: Any) -> Grade:
    """Returns a grade in which these checks fail."""
    results = tuple(
        Result(check.name, exercise, "fail", 0, check.points, text, "printed this\n")
        if check.name in failing
        else Result(check.name, exercise, "pass", check.points, check.points)
        for exercise, check in CHECKS
    )
    report = Report("02", "/out/submissions/02/s7/exercises.py", 7, results, (DIAGNOSIS,) if failing else ())
    submission = Submission(STUDENT, "02", Path("exercises.py"), "ab" * 32, "2026-11-19T20:00:00+01:00")
    fields: dict[str, Any] = {
        "submission": submission,
        "seeds": (7,),
        "version": "0.1.0",
        "isolation": "sandbox",
        "graded_at": "2026-11-21T18:40:12+00:00",
        "seconds": 0.5,
        "max_points": 50,
        "report": report,
    }
    return Grade(**fields | changes)


def grade_of(student: Student, grade: Grade, **changes: Any) -> Grade:
    return replace(grade, submission=replace(grade.submission, student=student, **changes))


GOOD = graded()
POOR = graded(("train_step/stale", "train_step/steps"))
LATE = graded(("train_step/stale",), late_days=1, late_penalty=5.0)
MISSING = replace(graded(report=None), submission=Submission(STUDENT, "02", None))
TROUBLE = graded(report=None, trouble="the sandbox did not start.")
UNUSABLE = replace(
    POOR,
    report=replace(
        POOR.report or Report("", "", 0, (), ()),
        results=tuple(Result(check.name, name, "error", 0, check.points, "broken") for name, check in CHECKS),
        diagnoses=(),
        unusable="exercises.py, line 3: invalid syntax.",
    ),
)


def hostile(text: str, number: int = 0) -> Grade:
    """Returns a grade with `text` in every place that a student can fill."""
    student = Student(f"{number}{text}", text, text, text)
    failed = graded(("train_step/stale", "evaluate/mode"), text)
    grade = grade_of(student, failed, notes=(text,) * 50, submitted_at=text)
    assert grade.report
    report = replace(
        grade.report,
        results=tuple(replace(result, printed=text) for result in grade.report.results),
        unusable=text if number % 3 == 1 else "",
    )
    flags = tuple(Flag(text, text, 3) for _ in range(50))
    trouble = text if number % 3 == 2 else ""
    return replace(grade, report=report, flags=flags, trouble=trouble, late_days=2, late_penalty=1.5)


ALL_HOSTILE = [hostile(text, number) for number, text in enumerate(HOSTILE_TEXTS)]


class Page(HTMLParser):
    """A parsed page: its elements with their attributes, and its text."""

    VOID = ("meta", "line", "rect")

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text += f" {data} "

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def all(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]

    @property
    def words(self) -> str:
        return re.sub(r" ([:;,.])", r"\1", " ".join(self.text.split()))


def student_page(*grades: Grade, due: Mapping[str, str] | None = None) -> Page:
    return Page(html_pages.student_page(grades, due or {}))


def class_page(tmp_path: Path, *grades: Grade) -> Page:
    html_pages.write_pages(grades, tmp_path, due={})
    return Page((tmp_path / "index.html").read_text(encoding="utf-8"))


def strings(value: Any) -> Iterator[str]:
    """Yields all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for element in value.values() if isinstance(value, dict) else value:
            yield from strings(element)


def harmless(text: str) -> bool:
    """Tells whether no character of `text` controls a terminal or a page."""
    return all(character in "\n\t" or character.isprintable() or character in " \xa0" for character in text)


# Pages


def test_a_student_page_has_the_failure_its_cause_a_link_and_the_command_to_repeat_it() -> None:
    words = student_page(POOR).words
    for text in (
        "Ada Lovelace",
        "s7 · ada@example.edu",
        "48 of 50 points",
        "2 points are open. Begin with train_step",
        "ignores gradients that were there before the loss is 1; expected 2.",
        "A known mistake The gradients are cleared after the update, not before.",
        "Read The order of the calls, in Training loop handbook/training-loop.md#the-order-of-the-calls",
        "Your code printed printed this",
        "rankzero hint 02 train_step",
        "rankzero check 02 --file exercises.py --seed 7",
        "19 November 2026, 20:00 +01:00",
        "ab" * 32,
    ):
        assert text in words, text
    assert words.count("passes") >= len(CHECKS) - 2
    assert words.count("the loss is 1; expected 2.") == 1, "two checks with one cause, which is shown once"


def test_a_student_page_explains_the_late_penalty() -> None:
    words = student_page(LATE, due=DUE).words
    assert "44 of 50 points" in words
    assert (
        "Your code earned 49. 5 were taken off: it was handed in 1 day late; it was due 18 November 2026, 23:59"
        in words
    )
    adjusted = replace(LATE, adjustments=(Adjustment("s7", "02", "train_step", change=1),))
    words = student_page(adjusted, due=DUE).words
    assert "45 of 50 points Adjusted by a person. The checks gave 49 points. +1 point for train_step" in words
    assert "With the adjustments of exercises it is 50 points. 5 were taken off" in words
    large_penalty = replace(LATE, late_penalty=100.0)
    assert "Your code earned 49. 49 were taken off" in student_page(large_penalty).words, "never below 0"


def test_hand_in_time_and_deadline_are_shown_in_one_time_zone() -> None:
    late = replace(LATE, submission=replace(LATE.submission, submitted_at="2026-11-18T23:30:00+00:00"))
    assert "Handed in 19 November 2026, 00:30 +01:00" in student_page(late, due=DUE).words
    assert "Handed in 18 November 2026, 23:30 UTC" in student_page(late).words


def test_a_student_page_tells_failed_grading_from_missing_and_unusable_submissions() -> None:
    words = student_page(TROUBLE).words
    assert "could not be graded; it does not count as zero" in words
    assert "the sandbox did not start." in words
    assert "of 50 points" not in words
    words = student_page(MISSING, due=DUE).words
    assert "Nothing to grade was handed in." in words
    assert "It was due 18 November 2026, 23:59 +01:00" in words
    words = student_page(UNUSABLE).words
    assert "does not load" in words
    assert "exercises.py, line 3: invalid syntax." in words
    assert "Every check passes." in student_page(GOOD).words


def test_the_class_page_names_the_line_of_a_file_that_does_not_load(tmp_path: Path) -> None:
    assert UNUSABLE.report
    with_source = replace(UNUSABLE.report, unusable=f"{UNUSABLE.report.unusable}\n    def f(:")
    words = class_page(tmp_path, replace(UNUSABLE, report=with_source)).words
    assert "exercises.py, line 3: invalid syntax." in words
    assert "\\n" not in words
    assert "def f(:" not in words


def test_pages_say_at_the_top_that_there_was_no_sandbox(tmp_path: Path) -> None:
    trusted = replace(GOOD, isolation="trusted")
    for page in (student_page(trusted), class_page(tmp_path, trusted)):
        place = page.words.index("Graded without a sandbox.")
        assert place < page.words.index("Rank Zero ·")
    assert "Graded without a sandbox" not in class_page(tmp_path, GOOD).words + student_page(GOOD).words


def test_the_class_page_counts_grades_mistakes_and_lost_points(tmp_path: Path) -> None:
    people = [
        grade_of(Student(f"s{n}", f"L{n:02}", "F"), grade) for n, grade in enumerate([GOOD, POOR, POOR, LATE, UNUSABLE])
    ]
    others = [grade_of(Student("s8", "Missing", "M"), MISSING), grade_of(Student("s9", "Trouble", "T"), TROUBLE)]
    alike = f"the same code up to names as {'somebody, ' * 20}you"
    flags = (Flag("import", "imports os", 12), Flag("identical", alike))
    flagged = replace(people[1], flags=flags, seconds=9.25)
    page = class_page(tmp_path, people[0], flagged, *people[2:], *others)
    words = page.words
    assert "7 students, 1 lab" in words
    assert "graded 5 missing 1 not gradable 1 late 1 to look at 1" in words
    assert "F L03 1 day 5" in words
    assert "T Trouble: the sandbox did not start." in words
    assert "Do not load" in words
    assert "F L04: exercises.py, line 3: invalid syntax." in words
    assert f"To look at Remarks by a program, without loss of points. identical F L01: {alike}" in words
    assert "import F L01, line 12: imports os" in words
    assert "F L01 9.2" in words
    mistake = "train_step 3 · 75 % The gradients are cleared after the update, not before."
    assert mistake in words, "of the four files that load"
    assert "follows each batch alone when called again, and runs the model once per step 2 2" in words
    assert "ignores gradients that were there before 3 3" in words
    assert "the median is 48 of 50 points; 1 with all points." in words
    assert "4 files that load; 1 does not, and lost everything" in words
    assert "M Missing s8 missing T Trouble s9 not graded" in words
    assert sorted(href for href in page.all("href") if href.startswith("students/")) == sorted(
        [f"students/s{n}.html" for n in (0, 1, 2, 3, 4, 8, 9)]
        + [f"students/s{n}.html" for n in (0, 1, 1, 1, 2, 3, 3, 4, 4, 9)]
    ), "once in the table, and in the lists: late, slow, to look at, not gradable, does not load"


def test_every_score_counts_in_one_bar(tmp_path: Path) -> None:
    from rankzero.grading.report.class_statistics import lab_statistics

    scores = [0, 4.5, 5, 44, 49, 49.5, 50]
    grades = tuple(replace(GOOD, late_penalty=50 - score) for score in scores)
    assert lab_statistics(LAB, grades).bins == [2, 1, 0, 0, 0, 0, 0, 0, 1, 2, 1]


def test_pages_have_no_scripts_and_load_no_files(tmp_path: Path) -> None:
    html_pages.write_pages([*ALL_HOSTILE, POOR], tmp_path, due={})
    files = sorted(tmp_path.rglob("*.html"))
    assert len(files) == len(HOSTILE_TEXTS) + 2
    for file in files:
        source = file.read_text(encoding="utf-8")
        page = Page(source)
        tags = [attributes for _, attributes in page.elements]
        policy = [tag["content"] for tag in tags if tag.get("http-equiv") == "Content-Security-Policy"]
        assert policy[0].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
        assert {tag for tag, _ in page.elements} <= NAMES
        assert {name for _, attributes in page.elements for name in attributes} <= ATTRIBUTES
        assert source.count("<style") == source.count("</style") == 1
        assert not re.search(r"url\(|@import", source.split("<style>")[1].split("</style")[0])
        for href in page.all("href"):
            assert re.fullmatch(r"#[\w-]+|(?:students|code/02)/[\w@.-]+\.html(?:#L\d+)?", href), href
            assert href.startswith(("#", "code/")) or (tmp_path / href).is_file()
        for style in page.all("style"):
            assert re.fullmatch(r"width:[\d.]+%", style)
        ids = page.all("id")
        assert len(ids) == len(set(ids))
        assert {href[1:] for href in page.all("href") if href[0] == "#"} <= set(ids)


@pytest.mark.parametrize("number", range(len(HOSTILE_TEXTS)))
def test_hostile_text_is_shown_as_text(number: int) -> None:
    grade = ALL_HOSTILE[number]
    source = html_pages.student_page([grade], due={})
    page, tame = Page(source), Page(html_pages.student_page([hostile("tame", number)], due={}))
    assert page.elements == tame.elements, "the text must change no element and no attribute"
    assert harmless(page.text)
    assert len(source) < 250_000
    assert " ".join(escape_text(HOSTILE_TEXTS[number], 150).split())[:100] in " ".join(page.text.split())


def test_the_only_link_of_a_student_page_points_to_the_first_exercise_with_open_points() -> None:
    assert student_page(POOR).all("href") == ["#02-train_step"]


def test_the_page_of_a_large_hostile_class_is_small(tmp_path: Path) -> None:
    kinds = list(zip(HOSTILE_TEXTS, ALL_HOSTILE, strict=True))
    many = [(f"s{n}", *kinds[n % len(kinds)]) for n in range(300)]
    page = html_pages.class_page([grade_of(Student(name, text), grade) for name, text, grade in many])
    assert len(page.encode()) < 1_000_000


# Gradebook


def rows(tmp_path: Path, *grades: Grade) -> list[dict[str, str]]:
    gradebook_csv.write_gradebook(grades, tmp_path / "grades.csv", DUE)
    with (tmp_path / "grades.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_gradebook_has_nbgraders_columns(tmp_path: Path) -> None:
    first = rows(tmp_path, LATE)[0]
    assert (tmp_path / "grades.csv").read_text().splitlines()[0] == (
        "assignment,duedate,timestamp,student_id,last_name,first_name,email,"
        "raw_score,late_submission_penalty,score,max_score"
    )
    assert list(first.values()) == [
        *("lab-02", "2026-11-18 22:59:00", "2026-11-19 19:00:00"),
        *("s7", "Lovelace", "Ada", "ada@example.edu"),
        *("49.0", "5.0", "44.0", "50.0"),
    ]


def test_failed_grading_has_no_score_and_a_missing_submission_has_zero(tmp_path: Path) -> None:
    scores = ("timestamp", "raw_score", "late_submission_penalty", "score", "max_score")
    missing, trouble = (rows(tmp_path, grade)[0] for grade in (MISSING, TROUBLE))
    assert [missing[key] for key in scores] == ["", "0.0", "0.0", "0.0", "50.0"]
    assert [trouble[key] for key in scores[1:]] == ["", "", "", "50.0"]


FORMULAS = r"""=1+1|+1|-1|@SUM(A1)|  =1|"=1|'=1|%0A=1| '" -1|\u201c=1|\uff1d1|\ufe661|\uff0b1|\uff0d1|\uff201|\u22121"""


@pytest.mark.parametrize(
    "text", [*FORMULAS.encode().decode("unicode_escape").split("|"), "|c", "\t=1", "\r=1", "\n=1", "\xa0=1"]
)
def test_no_cell_is_a_formula(tmp_path: Path, text: str) -> None:
    row = rows(tmp_path, grade_of(Student(text, text, text, text), GOOD))[0]
    for key in ("student_id", "last_name", "first_name", "email"):
        assert row[key][0] in "'\\", "an apostrophe, or an escaped control character"
        assert harmless(row[key])
        assert "\n" not in row[key]
    raw = (tmp_path / "grades.csv").read_text(encoding="utf-8").splitlines()[1]
    assert raw.endswith(",50.0,0.0,50.0,50.0"), "numbers are not quoted"


def test_hostile_names_stay_in_their_row_and_cell(tmp_path: Path) -> None:
    delimiters = grade_of(Student('a";=1+1;"', "x;=1", "y,=1", "z\n=1"), GOOD)
    read_rows = rows(tmp_path, *ALL_HOSTILE, delimiters)
    assert len(read_rows) == len(HOSTILE_TEXTS) + 1
    assert all(None not in row and None not in row.values() for row in read_rows)
    raw = (tmp_path / "grades.csv").read_text(encoding="utf-8").splitlines()
    assert len(raw) == len(HOSTILE_TEXTS) + 2
    semicolons = list(csv.reader(raw, delimiter=";"))
    assert not any(part.startswith(("=", '"=')) for row in semicolons for part in row)


# Course systems


def table(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))


def test_canvas_and_moodle_get_a_column_per_lab(tmp_path: Path) -> None:
    bob = Student("b2", "Byrne", "Bob", "bob@example.edu")
    other_lab = replace(GOOD, max_points=60, submission=replace(GOOD.submission, lab="01"))
    missing = replace(MISSING, submission=Submission(bob, "01", None))
    write_course_gradebooks([LATE, other_lab, grade_of(bob, TROUBLE), missing], tmp_path)
    titles = [f"Lab 01: {find_lab('01').title}", f"Lab 02: {LAB.title}"]
    assert table(tmp_path / "canvas.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles],
        ["    Points Possible", "", "", "", "", "60.0", "50.0"],
        ["Bob Byrne", "", "b2", "bob@example.edu", "", "", ""],
        ["Ada Lovelace", "", "s7", "ada@example.edu", "", "50.0", "44.0"],
    ]
    assert table(tmp_path / "moodle.csv") == [
        ["First name", "Last name", "ID number", "Email address", *titles],
        ["Bob", "Byrne", "b2", "bob@example.edu", "", ""],
        ["Ada", "Lovelace", "s7", "ada@example.edu", "50.0", "44.0"],
    ]


def test_no_name_is_a_formula_or_sets_points_in_a_course_system(tmp_path: Path) -> None:
    more = (Student("Points Possible"), Student("=1+1", "=2", "@a", "+1"))
    hostile = [*ALL_HOSTILE, *(grade_of(student, GOOD) for student in more)]
    write_course_gradebooks(hostile, tmp_path)
    for name in ("canvas.csv", "moodle.csv"):
        rows = table(tmp_path / name)
        assert len({len(row) for row in rows}) == 1
        assert len(rows) == len(hostile) + (2 if name == "canvas.csv" else 1)
        assert all(harmless(value) for row in rows for value in row if value)
    assert [row[0] for row in table(tmp_path / "canvas.csv") if "Points Possible" in row[0]] == ["    Points Possible"]


# Submitted code


def test_flagged_code_is_linked_from_the_class_page_and_shown_side_by_side(tmp_path: Path) -> None:
    bob = Student("b2", "Byrne", "Bob")
    source = LAB.reference.read_text(encoding="utf-8")
    hostile = "# <script>alert(1)</script> \u202e\n"
    grades = []
    for student, text in ((STUDENT, source), (bob, hostile + source.replace("optimizer", "opt"))):
        file = tmp_path / student.student_id / "exercises.py"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        grades.append(grade_of(student, GOOD, file=file))
    out = tmp_path / "out"
    write_reports(with_flags(grades), out, None)
    page = (out / "index.html").read_text(encoding="utf-8")
    links = dict.fromkeys(re.findall(r'href="(code/[^"#]*)', page))
    assert sorted(links) == [
        "code/02/b2--published.html",
        "code/02/b2--s7.html",
        "code/02/b2.html",
        "code/02/s7--b2.html",
        "code/02/s7--published.html",
        "code/02/s7.html",
    ]
    assert "the same code up to names as Ada Lovelace, the published solution: " in page
    line = int(re.findall(r'href="code/02/b2.html#L(\d+)"', page)[0])
    code = (out / "code/02/b2.html").read_text(encoding="utf-8")
    assert f'<span id="L{line}">' in code
    both = (out / "code/02/b2--s7.html").read_text(encoding="utf-8")
    assert "Bob Byrne" in both
    assert "Ada Lovelace" in both
    assert 'id="R' in both
    assert "def evaluate" in both
    for text in (code, both):
        assert "<script" not in text
        assert "\u202e" not in text
    write_reports([grades[0]], out, None)
    assert [file.name for file in (out / "code/02").iterdir()] == ["s7.html"], "files of the earlier run are removed"


# Predictions


def notebook(*lines: str) -> bytes:
    cells = [{"cell_type": "code", "source": [line]} for line in lines]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": "x = 1  # predict: no"}, *cells]}).encode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4.5", 4.5),
        ("-3", -3.0),
        ("96 * 4 + 1", 385.0),
        ("None", None),
        ("", None),
        ("__import__('os').abort()", None),
        ("'4'", None),
        ("True", None),
        ("1e999", None),
        ("9**9**9**9", None),
        ("1 / 0", None),
        ("(" * 90 + "1" + ")" * 90, 1.0),
    ],
)
def test_a_prediction_is_read_as_a_number_and_never_run(text: str, value: float | None) -> None:
    assert read_notebook(notebook(f"first_loss = {text}  # predict: nats per token")) == {
        "first_loss": Prediction("nats per token", value)
    }


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"[" * 100_000, b'{"cells": 1}', b'{"cells": [{}]}', b"\xff", b" " * 2**24]
)
def test_a_bad_notebook_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(is not a notebook in Jupyter's format|has .* bytes; the limit is .*)$"):
        read_notebook(data)


def test_predictions_of_a_class_are_summarized(tmp_path: Path) -> None:
    values = {"a": "4.5", "b": "100", "c": "None", "d": "<script>"}
    grades = []
    for student, value in values.items():
        folder = tmp_path / student
        folder.mkdir()
        (folder / "notebook.ipynb").write_bytes(notebook(f"first_loss = {value}  # predict: nats per token"))
        grades.append(grade_of(Student(student), GOOD, file=folder / "exercises.py"))
    assert write_predictions([*grades, GOOD], tmp_path)
    first = next(row for row in table(tmp_path / "predictions.csv") if row[1:3] == ["a", "first_loss"])
    assert first == ["02", "a", "first_loss", "nats per token", "4.5"]
    page = (tmp_path / "predictions.html").read_text(encoding="utf-8")
    assert "<script" not in page
    cells = re.search(r"first_loss</code>.*?</tr>", page, re.S)
    assert cells
    assert re.findall(r">([\d.]+)<", cells[0]) == ["2", "4.5", "52.25", "100", "4.564", "1"]
    assert {"href": "predictions.html"} in [attributes for _, attributes in class_page(tmp_path, *grades).elements]
    assert not write_predictions([GOOD], tmp_path / "others")
    (tmp_path / "predictions.html").unlink()
    assert {"href": "predictions.html"} not in [attributes for _, attributes in class_page(tmp_path, GOOD).elements]


# Gradescope and GitHub Classroom


def schema(name: str, part: str = "") -> dict[str, Any]:
    whole = json.loads((Path(__file__).parent / "schemas" / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(whole)
    return {**whole, "$ref": f"#/$defs/{part}"} if part else whole


def valid(results: dict[str, Any], *name: str) -> bool:
    return jsonschema.Draft202012Validator(schema(*name)).is_valid(results)


@pytest.mark.parametrize("grade", [GOOD, POOR, LATE, MISSING, UNUSABLE, *ALL_HOSTILE])
def test_results_for_gradescope_follow_the_schema(grade: Grade) -> None:
    written = gradescope_results.results(grade, LAB)
    assert valid(written, "gradescope-results")
    assert valid(written, "gradescope-results", "scored") == grade.gradable
    assert not valid({**written, "visibility": "never"}, "gradescope-results"), "the schema must refuse a wrong value"
    if grade.gradable:
        assert written["score"] == grade.score
        assert sum(test["score"] for test in written["tests"]) == grade.points
    assert all(harmless(text) for test in written.get("tests", []) for text in strings(test))
    assert harmless(written["output"])
    assert len(json.dumps(written)) < 250_000
    assert written["extra_data"]["gradable"] == grade.gradable


def test_the_manifest_sets_when_gradescope_shows_points() -> None:
    lab = replace(LAB, grading=Grading(visibility="after_due_date"))
    written = gradescope_results.results(POOR, lab)
    assert {written["visibility"], *(test["visibility"] for test in written["tests"])} == {"after_due_date"}


def test_a_diagnosis_describes_behavior_without_the_name_of_the_solution_that_matched(tmp_path: Path) -> None:
    feedback = gradescope_results.results(LATE, LAB)["tests"]
    for text in (student_page(LATE).words, class_page(tmp_path, LATE).words, printed(LATE), str(feedback)):
        assert "cleared after the update" in " ".join(text.split())
        assert "too late" not in text
        assert "cleared_too_late" not in text


def test_results_for_gradescope_explain_the_mistake_and_the_graded_file() -> None:
    written = gradescope_results.results(LATE, LAB)
    failed = [test for test in written["tests"] if test["status"] == "failed"]
    assert [(test["number"], test["score"], test["max_score"], test["tags"]) for test in failed] == [
        ("1.6", 0, 1, ["train_step", "fail"])
    ]
    assert failed[0]["name"] == "train_step ignores gradients that were there before"
    assert failed[0]["output"] == (
        "the loss is 1; expected 2.\n\nA known mistake: The gradients are cleared after the update, "
        "not before.\nRead handbook/training-loop.md#the-order-of-the-calls\n\nThe code printed:\nprinted this\n"
    )
    assert written["output"].splitlines() == [
        "49 of 50 points.",
        "Handed in 1 day late: 5 taken off, which leaves 44.",
        "To repeat it: rankzero check 02 --file exercises.py --seed 7",
    ]
    assert written["extra_data"] == {
        "schema": "rankzero-gradescope/1",
        "lab": "02",
        "student": "s7",
        "submission_sha256": "ab" * 32,
        "submitted_at": "2026-11-19T20:00:00+01:00",
        "graded_at": "2026-11-21T18:40:12+00:00",
        "version": "0.1.0",
        "seeds": [7],
        "gradable": True,
        "isolation": "sandbox",
    }


def test_failed_grading_has_no_score_in_any_system() -> None:
    gradescope = gradescope_results.results(TROUBLE, LAB)
    assert valid(gradescope, "gradescope-results")
    assert not {"score", "tests"} & set(gradescope)
    assert "does not count as zero" in gradescope["output"]
    assert gradescope["extra_data"]["gradable"] is False
    classroom = github_classroom_results.results(TROUBLE, LAB)
    assert (classroom["status"], classroom["max_score"]) == ("error", 0), "the reporter then sends no points"
    assert "does not count as zero" in classroom["tests"][0]["message"]


@pytest.mark.parametrize("grade", [GOOD, POOR, LATE, MISSING, TROUBLE, UNUSABLE, *ALL_HOSTILE])
def test_the_result_for_github_classroom_follows_the_schema(grade: Grade) -> None:
    result = github_classroom_results.results(grade, LAB)
    assert valid(result, "github-classroom-result")
    assert not valid({**result, "status": "passed"}, "github-classroom-result"), "the schema must refuse a wrong value"
    assert sum(test["score"] for test in result["tests"]) == (grade.score if grade.gradable else 0)
    for text in strings(result):
        assert harmless(text)
        assert not any(line.lstrip().startswith("::") or "##[" in line for line in text.splitlines())


def test_each_student_has_a_results_file_for_each_system(tmp_path: Path) -> None:
    write_reports(ALL_HOSTILE, tmp_path, due=None)
    for grade in ALL_HOSTILE:
        name = safe_name(grade.submission.student.student_id)
        for folder in ("gradescope", "classroom"):
            assert json.loads((tmp_path / folder / "02" / f"{name}.json").read_text(encoding="ascii"))


# Terminal


def printed(grade: Grade, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=80, **options)
    show(grade, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_shows_points_mistakes_and_penalty() -> None:
    words = " ".join(printed(LATE).split())
    assert words.startswith("Ada Lovelace (s7), Lab 02: Single-GPU training loop")
    assert "A known mistake: The gradients are cleared after the update, not before." in words
    assert "49 of 50 points" in words
    assert "Handed in 1 day late: 5 taken off, which leaves 44." in words
    assert "does not count as zero" in printed(TROUBLE)
    assert "Nothing to grade was handed in" in printed(MISSING)
    assert printed(replace(GOOD, isolation="trusted")).splitlines()[1].startswith("Graded without a sandbox")


@pytest.mark.parametrize("grade", ALL_HOSTILE)
def test_hostile_text_steers_no_terminal(grade: Grade) -> None:
    text = printed(grade, force_terminal=True, color_system=None)
    assert harmless(text)
    text.encode()
    assert len(text) < 150_000
    if "[red]" in grade.submission.student.last_name:
        assert "[red]markup[/red] :skull: [link=http://evil.example]x[/link]" in " ".join(text.split())


def test_escaping_keeps_visible_characters() -> None:
    for text in ("Zoë Ångström", "明 王", "Nguyễn Văn", "naïve\n\tline", "🙂", "e\u0301" * 9):
        assert escape_text(text) == text
    assert escape_text("a\u202eb\x1b[0m\ud800\u200b\r") == r"a\u202eb\x1b[0m\ud800\u200b\r"
    assert escape_text("z" + "\u0300" * 80).count("\u0300") == MARKS
    assert escape_text("x" * 50, limit=10) == "x" * 10 + "…"
    assert escape_text("\x00" * 50, limit=10) == r"\x00\x00\x00" + "…", "the limit is for the escaped text"
