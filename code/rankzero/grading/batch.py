"""Grades a class: keeps each grade as soon as there is one, goes on where it stopped, and writes the reports."""

import contextlib
import errno
import fcntl
import importlib.metadata
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.runner import new_seed
from rankzero.grading.executors import run_locally, run_on_ray
from rankzero.grading.grade import Grade, Submission, read_grade, write_grade
from rankzero.grading.grader import Settings
from rankzero.grading.intake import late_policy as late
from rankzero.grading.intake.safe_names import safe_name
from rankzero.grading.report import github_classroom as classroom
from rankzero.grading.report import gradebook, gradescope
from rankzero.grading.report import html_pages as pages
from rankzero.grading.scan.code_similarity import same_code
from rankzero.grading.scan.static_scan import look

EXECUTORS = {"local": run_locally, "ray": run_on_ray}
ENOUGH = 4  # failures from the first submission on: then it is the machine
RUN, LOCK = "run.json", ".lock"
FULL = {errno.ENOSPC, errno.EDQUOT}


@contextlib.contextmanager
def hold(out: Path, resume: bool) -> Iterator[dict[str, Any]]:
    """Makes OUT this process's own meanwhile; what is known of the run that it holds, empty if it is new.

    UserError if another process is at it, or if it holds something and nobody said `resume`.
    """
    run = out / RUN
    if not resume and out.is_dir() and {one.name for one in out.iterdir()} - {LOCK}:
        what = "the grades of an earlier run: go on with them by --resume" if run.exists() else "other files"
        raise UserError(f"{out} holds {what}; or name another folder with --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK).open("w")
    except OSError as error:
        raise UserError(f"cannot write {out} ({error.strerror}): name another folder with --out.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"another `rankzero grade` is writing {out}: wait, or name another folder.") from None
        try:
            yield _read_run(run)
        except OSError as error:
            if error.errno not in FULL:
                raise
            told = f"cannot write {out} ({error.strerror}): make room. What is graded is kept; --resume goes on."
            raise UserError(told) from None
        finally:
            (out / LOCK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                out.rmdir()  # nothing came of it


def _read_run(run: Path) -> dict[str, Any]:
    if not run.exists():
        return {}
    try:
        known: dict[str, Any] = json.loads(run.read_text(encoding="utf-8"))
        int(known["seed"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{run} cannot be read ({error}): name another folder with --out to grade anew.") from None
    return known


def seed_of(known: Mapping[str, Any], wanted: int | None) -> int:
    """The seed of the run: that of the one to resume, the one wanted, or one that nobody could have known."""
    if "seed" not in known:
        return new_seed() if wanted is None else wanted
    if wanted not in (None, known["seed"]):
        raise UserError(
            f"--seed {wanted}: the run to resume has seed {known['seed']}; another seed needs another --out."
        )
    return int(known["seed"])


def write_run(settings: Settings, rules: Mapping[str, str], out: Path) -> None:
    """Keeps in OUT how this class is graded, and by which `rules`: the deadline, what lateness costs, the roster."""
    about = {**asdict(settings), "rules": dict(rules), "version": importlib.metadata.version("rankzero")}
    write_atomically(out / RUN, json.dumps(about, indent=1))


def grade_all(
    submissions: Sequence[Submission],
    settings: Settings,
    out: Path,
    *,
    jobs: int,
    executor: str,
    progress: Callable[[Grade, bool], None],
) -> list[Grade]:
    """Grades whatever has no grade yet, in OUT. `progress` hears of each grade, and whether it was there before."""
    grades, todo = [], []
    for submission in submissions:
        if before := _before(submission, settings, out):
            progress(before, True)
            grades.append(before)
        else:
            todo.append(submission)
    troubles = 0  # in a row, from the first on
    if todo:
        for grade in EXECUTORS[executor](todo, settings, jobs):
            write_grade(grade, _file(grade.submission, out))
            progress(grade, False)
            grades.append(grade)
            troubles = troubles + 1 if grade.trouble else -len(todo)
            if troubles == ENOUGH:
                raise UserError(f"none of the first {ENOUGH} submissions can be graded: {grade.trouble}.")
    return sorted(grades, key=lambda grade: (grade.submission.lab, grade.submission.student.student_id))


def _file(submission: Submission, out: Path) -> Path:
    return out / "grades" / submission.lab / f"{safe_name(submission.student.student_id)}.json"


def _before(submission: Submission, settings: Settings, out: Path) -> Grade | None:
    """The grade that this very submission has already. Names and times are taken as they are now."""
    file = _file(submission, out)
    if not file.exists():
        return None
    with contextlib.suppress(ValueError):
        grade = read_grade(file)
        same = (grade.submission.sha256, grade.seed) == (submission.sha256, settings.seed)
        if same and grade.gradable and grade.isolation == settings.isolation:
            return replace(grade, submission=submission)
    return None


def with_lateness(grades: Sequence[Grade], due: datetime | None, policy: str | None) -> list[Grade]:
    """The grades with what handing in late costs: by `policy`, or by each lab's own."""
    found = []
    for grade in grades:
        rule = late.parse_policy(policy or find_lab(grade.submission.lab).grading.late)
        seconds = late.late_seconds(grade.submission.submitted_at, due)
        found.append(replace(grade, late_days=rule.days(seconds), late_penalty=rule.penalty(grade.max_points, seconds)))
    return found


def with_flags(grades: Sequence[Grade]) -> list[Grade]:
    """The grades with what a person should look at, in each submission and between those of a lab."""
    sources: dict[str, dict[str, bytes]] = defaultdict(dict)
    for grade in grades:
        if grade.submission.file:
            sources[grade.submission.lab][grade.submission.student.student_id] = grade.submission.file.read_bytes()
    alike = {}
    for number, theirs in sources.items():
        lab = find_lab(number)
        alike[number] = same_code(theirs, lab.stubs.read_bytes(), lab.reference.read_bytes())
    found = []
    for grade in grades:
        student, number = grade.submission.student.student_id, grade.submission.lab
        source = sources.get(number, {}).get(student)
        mine = () if source is None else (*look(source), *alike[number].get(student, ()))
        found.append(replace(grade, flags=mine))
    return found


def write_reports(grades: Sequence[Grade], out: Path, due: datetime | None) -> None:
    """Everything that OUT holds beside the grades: pages, the gradebook, and what other systems read."""
    when = due.isoformat() if due else ""
    labs = {number: find_lab(number) for number in {grade.submission.lab for grade in grades}}
    for grade in grades:
        write_grade(grade, _file(grade.submission, out))
        gradescope.write(grade, labs[grade.submission.lab], out)
        classroom.write(grade, labs[grade.submission.lab], out)
    duedates = dict.fromkeys(labs, when) if when else {}
    gradebook.write_csv(grades, out / "grades.csv", duedates)
    pages.write_pages(grades, out, pages.Settings(due=duedates))
