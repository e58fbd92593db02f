"""Class run: one call of `rankzero grade`, from the submissions to new grades, a table of differences and reports."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rankzero.curriculum import Lab, LatePolicy, find_lab, find_lab_with_exercises, validate
from rankzero.errors import UserError
from rankzero.grading import batch, run_file
from rankzero.grading.adjustments import read_adjustments, with_adjustments
from rankzero.grading.grade import Grade, Submission
from rankzero.grading.grader import GradingSettings
from rankzero.grading.grading_tasks import Key, Tasks, published_grades, tasks_of, with_absent
from rankzero.grading.hand_in_record import keep_facts, read_record
from rankzero.grading.intake.collect import collect
from rankzero.grading.intake.read_roster import read_roster
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.intake.timestamps import parse_time
from rankzero.grading.regrade import matching_checks
from rankzero.grading.report.anonymity import student_numbers
from rankzero.grading.report.differences import Difference, append_differences, differences
from rankzero.grading.sandbox.sandbox_client import require_sandbox

Progress = Callable[[Grade, bool], None]


@dataclass(frozen=True)
class ClassRun:
    """The tasks of a run. `rules` are recorded in OUT, and hold for later runs that do not name others."""

    out: Path
    submissions: Path | None = None  # None to take the files that OUT holds
    labs: Sequence[str] = ()  # none for those of the run in OUT
    rules: dict[str, Any] = field(default_factory=dict)  # due, late, roster, anonymous
    resume: bool = False
    changed: bool = False  # grade nothing but checks that have changed
    checks: Sequence[str] = ()  # grade these again, and nothing else: EXERCISE/CHECK, or EXERCISE
    students: Sequence[str] = ()  # ids; none for all students
    retime: bool = False
    seeds: int | None = None  # per student
    fixed_seeds: Sequence[int] = ()
    settings: dict[str, Any] = field(default_factory=dict)  # time_limit, memory, trusted
    jobs: int = 1
    executor: str = "local"

    @property
    def continues(self) -> bool:
        """Returns whether OUT may hold the grades of an earlier run."""
        return bool(self.resume or self.changed or self.checks or self.students)


@dataclass(frozen=True)
class Outcome:
    """The grades that stand in OUT after a run, and what is new."""

    grades: list[Grade]
    changes: list[Difference]
    kept: int  # grades that were made by earlier runs
    again: Counter[tuple[str, str]]  # submissions that were graded again, by lab and check
    seconds: float


def grade_class(
    run: ClassRun,
    progress: Callable[[int], AbstractContextManager[Progress]],
    announce: Callable[[Tasks], None],
) -> Outcome:
    """Grades a class as `run` asks. `announce` is called before grading, `progress` with the number of grades.

    UserError, before any work, for a mistake in the options, in OUT/adjustments.csv or in the submissions.
    """
    chosen = [find_lab_with_exercises(number) for number in run.labs]
    if not run.settings.get("trusted"):
        require_sandbox()
    with run_file.lock_folder(run.out, run.continues) as earlier_run:
        rules = {**earlier_run.get("rules", {}), **run.rules}
        due = parse_time(rules["due"]) if "due" in rules else None
        run_json = run.out / run_file.RUN_FILE
        policy = validate(LatePolicy, rules["late"], run_json, "late") if "late" in rules else None
        labs = sorted({*chosen, *map(find_lab, earlier_run.get("labs", []))}, key=lambda lab: lab.number)
        if not labs:
            raise UserError(f"{run.out} holds no grades yet: name the submissions and a --lab.")
        pool = run_file.choose_pool(earlier_run, run.fixed_seeds, run.seeds)
        settings = GradingSettings(tuple(lab.number for lab in labs), pool, **run.settings)
        forced = matching_checks(labs, run.checks)
        before = published_grades(run.out)
        submissions, published = _submissions(run, labs, rules.get("roster"), before)
        students = {submission.student.student_id for submission in submissions}
        if unknown := [student for student in run.students if student not in students]:
            raise UserError(f"--student {printable(unknown[0])}: no student here has this id; grades.csv lists them.")
        adjustments = read_adjustments(run.out, labs, students)
        run_file.write_run(settings, rules, run.out)
        tasks = tasks_of(submissions, published, settings, run.out, forced=forced, students=run.students)
        announce(tasks)
        began = time.monotonic()
        with progress(len(tasks.kept) + len(tasks.open)) as advance:
            grades = batch.grade_all(tasks, settings, run.out, jobs=run.jobs, executor=run.executor, progress=advance)
        seconds = time.monotonic() - began
        grades = batch.with_flags(batch.with_lateness(with_adjustments(grades, adjustments), due, policy))
        changes = differences(published | before, grades)
        append_differences(changes, run.out, datetime.now(UTC).isoformat(timespec="seconds"))
        # The pages show seeds, so that from here on the run needs others.
        next_pool = replace(pool, generation=pool.generation + 1)
        run_file.write_run(replace(settings, pool=next_pool), rules, run.out)
        numbers = student_numbers(grades, run.out, pool.secret) if rules.get("anonymous") else None
        batch.write_reports(grades, run.out, due, changes, numbers)
    kept = sum(grade.report is not None for grade in tasks.kept)
    return Outcome(grades, changes, kept, tasks.again, seconds)


def _submissions(
    run: ClassRun, labs: Sequence[Lab], roster_file: str | None, published: dict[Key, Grade]
) -> tuple[list[Submission], dict[Key, Grade]]:
    """Returns the submissions of the class and the published grades: those in OUT, and those that are collected now."""
    if run.submissions is None or run.changed or run.checks:
        if not published:
            raise UserError(f"{run.out} holds no grades yet: name the submissions and a --lab.")
        return [grade.submission for grade in published.values()], published
    roster = read_roster(Path(roster_file)) if roster_file else None
    recorded = {} if run.retime else read_record(run.out)
    collected = keep_facts(collect(run.submissions, labs, run.out, roster, recorded), run.out, run.retime)
    return with_absent(collected, published)
