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


@dataclass(frozen=True)
class Flag:
    """A remark on a submission that a person should look at. It costs no points."""

    kind: str
    text: str
    line: int = 0  # of exercises.py; 0 for the whole file


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
        """Returns the points before any penalty."""
        return self.report.points if self.report else 0

    @property
    def score(self) -> float:
        """Returns the points that count: less the penalty, and at least 0."""
        return max(0.0, self.points - self.late_penalty)

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
        del values["graded_at"], values["seconds"], values["submission"]["file"]
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
