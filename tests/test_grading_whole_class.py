"""A class of 60 from each course system, with all that happens in one: each cell of the gradebook is as predicted."""

import csv
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sandboxes import needs_sandbox

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.report import Report, Result
from rankzero.grading import batch
from rankzero.grading.class_run import ClassRun, Outcome, grade_class
from rankzero.grading.grade import Grade
from rankzero.grading.grader import GradingSettings
from rankzero.grading.regrade import GradingTask

LAB = find_lab("02")
FULL, EMPTY = LAB.reference.read_bytes(), LAB.stubs.read_bytes()
COUNT = 60
DUE = datetime(2026, 12, 1, 23, 59)
DOWNLOAD = datetime(2026, 12, 4, 10)
RULES = {"due": DUE.astimezone().isoformat(), "late": {"percent_per_day": 10}}
DAY = timedelta(days=1)
EARLY, OLD = DUE - DAY, DUE - 2 * DAY


@dataclass(frozen=True)
class Person:
    """A student. Person 10 and person 11 have one name."""

    number: int

    @property
    def first(self) -> str:
        return f"Zoë{min(self.number, 10) if self.number < 12 else self.number}"

    @property
    def last(self) -> str:
        return "Müller" if self.number % 2 or self.number == 10 else "Osei"

    @property
    def login(self) -> str:
        return f"user{self.number:02}"


Handin = tuple[Person, str, bytes, datetime]  # person, the person's own name of the file, contents, time


@dataclass(frozen=True)
class System:
    """How a course system names a file; `says` is whether it states times, or the word late, or nothing."""

    name: Callable[[Person, datetime], str]
    says: str
    knows: bool  # whether its names tell two people of one name apart, with the roster below


def moment(when: datetime) -> str:
    return f"{when:%b} {when.day}, {when:%Y} {when.hour % 12 or 12}{when:%M %p}"


def canvas(person: Person, when: datetime) -> str:
    late = "LATE_" if when > DUE else ""
    return f"{person.last}{person.first}_{late}{40_000 + person.number}_{when:%m%d%H%M}_".lower()


def ilias(person: Person, when: datetime) -> str:
    late = "Late Submission - " if when > DUE else ""
    return f"Loop/Abgaben/{person.last}_{person.first}_{person.login}_{300 + person.number}/{late}"


SYSTEMS = {
    "Canvas": System(canvas, "word", True),
    "Moodle": System(lambda p, when: f"{p.first} {p.last}_{1000 + p.number}_assignsubmission_file/", "", False),
    "Blackboard": System(lambda p, when: f"Lab 2_{p.login}_attempt_{when:%Y-%m-%d-%H-%M-%S}_", "time", True),
    "Brightspace": System(lambda p, when: f"39-25 - {p.first} {p.last} - {moment(when)}/", "time", False),
    "ILIAS": System(ilias, "word", True),
    "Teams": System(lambda p, t: f"Submitted files/{p.first} {p.last}/Lab 2/Version {(t - OLD).days}/", "", False),
    "Sakai": System(lambda p, when: f"Loop/{p.last}, {p.first}({p.login})/Submission attachment(s)/", "", True),
}


def roster(path: Path) -> Path:
    """Writes the class as Canvas's gradebook, which has the numbers and the logins."""
    lines = ["Student,ID,SIS User ID,SIS Login ID,Section", "    Points Possible,,,,"]
    for person in map(Person, range(COUNT)):
        name = f'"{person.last}, {person.first}"'
        lines.append(f"{name},{40_000 + person.number},s{person.number:02},{person.login},A")
    path.write_text("\n".join([*lines, '"Student, Test",49999,,f3c1,A']) + "\n", encoding="utf-16")
    return path


def work_of(person: Person) -> tuple[list[Handin], float | None]:
    """Returns a student's hand-ins, and the points before a penalty; None if nobody can give points."""
    name = "exercises.py"
    match person.number % 6 if person.number not in (10, 11) else 0:
        case 1:
            return [(person, name, EMPTY, EARLY)], 0
        case 2:  # one day late
            return [(person, name, FULL, DUE + DAY / 2)], 50
        case 3:  # once more, newer
            return [(person, name, EMPTY, OLD), (person, "exercises-1.py", FULL, EARLY)], 50
        case 4:
            return [(person, "essay.pdf", b"%PDF", EARLY)], None
        case 5:
            return [], None
    return [(person, name, FULL, EARLY)], 50


def predicted(person: Person, system: System) -> str:
    """Returns the cell of the gradebook."""
    _, points = work_of(person)
    if points is None or (person.number in (10, 11) and not system.knows):
        return ""
    late = person.number % 6 == 2 and system.says == "time"
    return f"{points - 5 * late:.1f}"


def download(path: Path, system: System) -> Path:
    """Writes the archive of the class, in which each member has the time of the download."""
    with zipfile.ZipFile(path, "w") as file:
        for person in map(Person, range(COUNT)):
            for _, name, data, when in work_of(person)[0]:
                place = system.name(person, when) + name
                if place not in file.NameToInfo:  # which two students of one name may share
                    file.writestr(zipfile.ZipInfo(place, DOWNLOAD.timetuple()[:6]), data)
    return path


def points_by_content(tasks: Sequence[GradingTask], settings: GradingSettings, jobs: int) -> Iterator[Grade]:
    """Gives all points to the reference and none to other files, in place of the sandbox."""
    for submission in (task.submission for task in tasks):
        report = None
        if submission.file:
            points = 50 * (submission.file.read_bytes() == FULL)
            results = (Result("train_step/loss", "train_step", "pass" if points else "fail", points, 50),)
            report = Report("02", str(submission.file), 7, results, ())
        yield Grade(submission, (7,), "0.1.0", "trusted", "2026-12-05T10:00:00+00:00", 0.1, 50, report)


@contextmanager
def no_progress(total: int) -> Iterator[Callable[[Grade, bool], None]]:
    yield lambda grade, kept: None


def grade_all(tmp_path: Path, system: System, **options: object) -> tuple[Outcome, dict[str, str]]:
    """Returns the outcome, and the scores in canvas.csv by SIS user id."""
    source = download(tmp_path / "download.zip", system)
    rules = {**RULES, "roster": str(roster(tmp_path / "roster.csv"))}
    run = ClassRun(tmp_path / "out", source, ("02",), rules, **options)  # type: ignore[arg-type]
    outcome = grade_class(run, no_progress, lambda tasks: None)
    with (tmp_path / "out" / "canvas.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return outcome, {row["SIS User ID"]: row[f"Lab 02: {LAB.title}"] for row in rows if row["SIS User ID"]}


def compare(scores: dict[str, str], system: System) -> None:
    expected = {f"s{person.number:02}": predicted(person, system) for person in map(Person, range(COUNT))}
    strangers = scores.keys() - expected.keys()
    assert {name: scores[name] for name in expected} == expected
    assert len(strangers) == 0 if system.knows else len(strangers) <= 2


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_cell_of_a_class_of_60_is_as_predicted(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(batch.EXECUTORS, "local", points_by_content)
    monkeypatch.setattr(batch, "with_flags", lambda grades: grades)  # comparing all files takes most of the time
    system = SYSTEMS[name]
    outcome, scores = grade_all(tmp_path, system, settings={"trusted": True})
    compare(scores, system)
    by_id = {grade.submission.student.student_id: grade for grade in outcome.grades}
    late = by_id["s02"].submission.notes
    assert any("marks" in note for note in late) == (system.says == "word")
    unknown = any(note.startswith("The time of hand-in is unknown") for note in by_id["s00"].submission.notes)
    assert unknown == (name in ("Moodle", "ILIAS", "Teams", "Sakai"))
    assert by_id["s04"].submission.doubtful
    assert not by_id["s05"].submission.doubtful
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "To decide: nothing could be graded" in page


@pytest.mark.prove
@needs_sandbox()
def test_each_cell_of_a_class_of_60_is_as_predicted_by_real_grading(tmp_path: Path) -> None:
    outcome, scores = grade_all(tmp_path, SYSTEMS["Canvas"], settings={}, jobs=2)
    compare(scores, SYSTEMS["Canvas"])
    assert not any(grade.trouble for grade in outcome.grades)
