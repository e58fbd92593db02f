"""Grade: the result of one submission to one lab, as plain data in a JSON file, the same for the same seeds."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import validate
from rankzero.errors import UserError
from rankzero.exercises.checks.report import Report

SCHEMA = "rankzero-grade/2"


@dataclass(frozen=True)
class Student:
    """One line of the roster. Without a roster, `student_id` is the submission's name, and all else is empty."""

    student_id: str
    last_name: str = ""
    first_name: str = ""
    email: str = ""
    login: str = ""  # the name with which the student logs in, if it is not the id
    lms_id: str = ""  # the course system's own number of the student

    @property
    def full_name(self) -> str:
        """Returns the first name and the last name; an unknown name is left out."""
        return f"{self.first_name} {self.last_name}".strip()


@dataclass(frozen=True)
class Submission:
    """The file that one student handed in for one lab, as collected: nothing of it has been run."""

    student: Student
    lab: str  # the lab's number, two digits
    file: Path | None  # the grader's copy of exercises.py; None if nothing usable was handed in
    sha256: str = ""  # of that copy
    submitted_at: str = ""  # ISO 8601 with its zone; empty if unknown
    notes: tuple[str, ...] = ()  # sentences on what was refused or unusual
    passed_over: tuple[str, ...] = ()  # sha256 of the student's other files for this lab
    one_time: str = ""  # the reason why the files' times may be those of a download or a copy
    doubtful: bool = False  # nothing is graded, but something was handed in that may be this student's


@dataclass(frozen=True)
class Flag:
    """A remark on a submission that a person should look at. It costs no points."""

    kind: str
    text: str
    line: int = 0  # of exercises.py; 0 for the whole file
    partners: tuple[str, ...] = ()  # ids of students with the same code; "" is the published solution


@dataclass(frozen=True)
class Adjustment:
    """A person's decision on a student's points or deadline: a row of OUT/adjustments.csv."""

    student: str  # id
    lab: str  # number; empty for all labs
    exercise: str = ""  # empty for the whole lab
    points: float | None = None  # that replace those of the exercise, or the score of the lab
    change: float | None = None  # points added to them; negative to subtract
    extension_hours: float | None = None
    comment: str = ""
    who: str = ""
    when: str = ""

    @property
    def text(self) -> str:
        """Returns what it changes, as a sentence without a period."""
        of = f" for {self.exercise}" if self.exercise else " for the whole lab"
        parts = [f"{self.points:g} {_points(self.points)}{of}"] if self.points is not None else []
        parts += [f"{self.change:+g} {_points(self.change)}{of}"] if self.change is not None else []
        parts += [f"the deadline is {self.extension_hours:g} hours later"] if self.extension_hours is not None else []
        return ", ".join(parts)


def _points(number: float) -> str:
    return "point" if abs(number) == 1 else "points"


@dataclass(frozen=True)
class Grade:
    """Points and their reasons. `report` is None where nothing was handed in, or where grading itself failed."""

    submission: Submission
    seeds: tuple[int, ...]  # on which the submission was last graded, in their order
    version: str  # of rankzero
    isolation: str  # "sandbox" or "trusted"
    graded_at: str  # ISO 8601, UTC
    seconds: float  # taken by grading
    max_points: int
    report: Report | None = None
    trouble: str = ""  # the reason, if grading itself failed: then the submission has no grade, not a zero
    late_days: int = 0
    late_penalty: float = 0.0  # points taken away
    flags: tuple[Flag, ...] = ()
    judged: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # the seeds of each check's verdict
    digests: Mapping[str, str] = field(default_factory=dict)  # of each check when it was judged; see lab_digest.py
    lab_digest: str = ""  # of all checks, with their points
    commit: str = ""  # of the repository
    adjustments: tuple[Adjustment, ...] = ()  # by people, in their order

    @property
    def repeat_seed(self) -> int:
        """Returns the seed on which `rankzero check` shows the first failure, or the last seed if all checks pass."""
        results = self.report.results if self.report else ()
        failed = (result.check for result in results if result.status not in ("pass", "skipped"))
        return next((self.judged[check][-1] for check in failed if check in self.judged), self.seeds[-1])

    @property
    def gradable(self) -> bool:
        """Returns whether grading succeeded."""
        return not self.trouble

    @property
    def points(self) -> int:
        """Returns the points that the code earned."""
        return self.report.points if self.report else 0

    @property
    def decided(self) -> bool:
        """Returns whether a person has decided on points: they count also where grading failed."""
        return any(row.points is not None or row.change is not None for row in self.adjustments)

    @property
    def counts(self) -> bool:
        """Returns whether there is a score: a person's, that of the checks, or 0 for nothing handed in."""
        return (self.gradable and not self.submission.doubtful) or self.decided

    @property
    def by_exercise(self) -> dict[str, float]:
        """Returns the points of each exercise, with a person's adjustments."""
        points: dict[str, float] = dict(self.report.by_exercise()) if self.report else {}
        for row in self.adjustments:
            if row.exercise:
                before = points.get(row.exercise, 0.0) if row.points is None else row.points
                points[row.exercise] = max(0.0, before + (row.change or 0.0))
        return points

    @property
    def raw_score(self) -> float:
        """Returns the points of all exercises, with adjustments, before a late penalty."""
        return round(sum(self.by_exercise.values()), 6)

    @property
    def taken_off(self) -> float:
        """Returns the points that the late penalty takes, which leave a score of at least 0."""
        return round(min(self.raw_score, self.late_penalty), 6)

    @property
    def score(self) -> float:
        """Returns the points that count: less the penalty, with a person's adjustments of the lab, and at least 0."""
        score = self.raw_score - self.taken_off
        for row in self.adjustments:
            if not row.exercise:
                score = (score if row.points is None else row.points) + (row.change or 0.0)
        return round(max(0.0, score), 6)

    @property
    def extension_hours(self) -> float:
        """Returns by how much the student's deadline is later: the last row that says so counts."""
        hours = [row.extension_hours for row in self.adjustments if row.extension_hours is not None]
        return hours[-1] if hours else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the contents of the JSON file."""
        values = asdict(self)
        values["submission"]["file"] = str(self.submission.file) if self.submission.file else None
        derived = {"gradable": self.gradable, "points": self.points, "score": self.score}
        return {"schema": SCHEMA, **values, **derived}

    def verdict(self) -> dict[str, Any]:
        """Returns the part that is equal whenever the same submission is graded with the same seeds.

        It has no times, no paths, no printed output, which may be random, and no comparison with other submissions.
        """
        values = replace(self, flags=tuple(flag for flag in self.flags if flag.kind != "identical")).as_dict()
        del values["graded_at"], values["seconds"], values["commit"], values["submission"]["file"]
        if values["report"]:
            del values["report"]["file"]
            for result in values["report"]["results"]:
                del result["printed"]
        return values


def write_grade(grade: Grade, path: Path) -> None:
    """Writes the grade atomically."""
    write_atomically(path, json.dumps(grade.as_dict(), indent=1))


def read_grade(path: Path) -> Grade:
    """Returns the grade in a file that `write_grade` has written. ValueError for any other file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("schema") != SCHEMA:
            raise ValueError("another schema")
        for derived in ("gradable", "points", "score"):
            del values[derived]
        return validate(Grade, values, path)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, UserError) as error:
        raise ValueError(f"{path} is no grade of this version ({error}): delete it, and it is graded again.") from None
