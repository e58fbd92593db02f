"""Progress: the learner's points and hints in all labs in one small JSON file, and the code that earned the points."""

import datetime
import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import ROOT, Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise
from rankzero.exercises.checks.report import Report


@dataclass
class LabProgress:
    """One lab's progress, by exercise: the most `points` so far, the points of the `last` check, the `hints` shown."""

    file: str = ""  # the learner's copy of the exercises
    points: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    checked: str = ""  # time of the last check, UTC


def progress_file() -> Path:
    """Returns $RANKZERO_PROGRESS, or `.rankzero/progress.json` in the repository."""
    return Path(os.environ.get("RANKZERO_PROGRESS") or ROOT / ".rankzero" / "progress.json")


def read_progress() -> dict[str, LabProgress]:
    """Returns progress by lab number; empty before the first `start`."""
    path = progress_file()
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {number: LabProgress(**values) for number, values in raw.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path} cannot be read ({error}): fix it, or delete it to start again.") from None


def write_progress(number: str, lab: LabProgress) -> None:
    """Writes one lab's progress to the file; the file is replaced as a whole."""
    labs = read_progress() | {number: lab}
    _write(progress_file(), json.dumps({key: vars(value) for key, value in labs.items()}, indent=2))


def _write(path: Path, content: str | bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}): name another place with RANKZERO_PROGRESS.") from None


def of_lab(lab: Lab) -> LabProgress:
    """Returns the progress in `lab`."""
    return read_progress().get(lab.number, LabProgress())


def kept_code(number: str) -> Path:
    """Returns the folder that has, for each exercise of a lab, a copy of the last file with its most points."""
    return progress_file().parent / "earned" / f"lab-{number}"


def remember(report: Report, source: bytes) -> None:
    """Records a report's points: the best of each exercise, so that a typo costs nothing, and the last.

    `source` is the file that earned them; see `kept_code`.
    """
    progress = read_progress().get(report.lab, LabProgress())
    for exercise, points in report.by_exercise().items():
        if 0 < points >= progress.points.get(exercise, 0):
            _write(kept_code(report.lab) / f"{exercise}.py", source)
        progress.points[exercise] = max(points, progress.points.get(exercise, 0))
        progress.last[exercise] = points
    progress.checked = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    write_progress(report.lab, progress)


def first_open(exercises: Sequence[Exercise], points: dict[str, int]) -> Exercise | None:
    """Returns the first exercise without all of its points, or None if there is none."""
    return next((exercise for exercise in exercises if points.get(exercise.name, 0) < exercise.points), None)


def forget(lab: Lab, exercises: Collection[str]) -> None:
    """Drops the points and hints of these exercises."""
    progress = of_lab(lab)
    for values in (progress.points, progress.last, progress.hints):
        for name in exercises:
            values.pop(name, None)
    write_progress(lab.number, progress)


def next_hint(lab: Lab, exercise: Exercise) -> int:
    """Returns the number of the next hint, from 1, and records it as shown."""
    progress = of_lab(lab)
    tier = min(progress.hints.get(exercise.name, 0) + 1, len(exercise.hints))
    progress.hints[exercise.name] = tier
    write_progress(lab.number, progress)
    return tier
