"""Grading tasks: what a run has to grade, given the grades in OUT, which hold as long as what made them is the same."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankzero.curriculum import Lab, find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import exercises_of
from rankzero.grading.grade import Grade, Submission, read_grade
from rankzero.grading.grader import GradingSettings
from rankzero.grading.intake.safe_names import safe_name
from rankzero.grading.regrade import GradingTask, changed_checks, rescored, stamped, with_dependents

PUBLISHED, NEW = "grades", "new-grades"  # folders in OUT; grades are new until the table of differences is written
Key = tuple[str, str]  # a lab's number and a student's id


@dataclass(frozen=True)
class Tasks:
    """Grades to keep, tasks that are open, and the checks that are graded again with their numbers of submissions."""

    kept: list[Grade]
    open: list[GradingTask]
    again: Counter[tuple[str, str]]  # by lab and check


def published_grades(out: Path) -> dict[Key, Grade]:
    """Returns the grades in OUT by lab and student, with the files in OUT. UserError for an unreadable grade."""
    return _read_grades(out / PUBLISHED, out)


def _read_grades(folder: Path, out: Path) -> dict[Key, Grade]:
    grades = {}
    for file in sorted(folder.glob("*/*.json")):
        try:
            grade = read_grade(file)
        except ValueError as error:
            raise UserError(str(error)) from None
        submission = grade.submission
        if submission.file:
            copy = out / "submissions" / submission.lab / safe_name(submission.student.student_id) / "exercises.py"
            grade = replace(grade, submission=replace(submission, file=copy))
        grades[_key(submission)] = grade
    return grades


def _key(submission: Submission) -> Key:
    return submission.lab, submission.student.student_id


def with_absent(
    collected: Sequence[Submission], published: Mapping[Key, Grade]
) -> tuple[list[Submission], dict[Key, Grade]]:
    """Returns all submissions of the class and their published grades, where SUBMISSIONS may lack some.

    Nobody loses a grade because a folder is no longer there: a student who is absent now, or of whom no file is found
    now, keeps the file that was graded. A grade moves to a student who had no file and now has this one: a roster or a
    folder's new name has changed the id.
    """
    ours = dict(published)
    by_key = {_key(submission): submission for submission in collected}
    for key, grade in published.items():
        earlier, now = grade.submission, by_key.get(key)
        heirs = [
            key
            for key, other in by_key.items()
            if earlier.file and (key[0], other.sha256) == (earlier.lab, earlier.sha256)
            if key not in published or published[key].submission.file is None
        ]
        if now is None and len(heirs) == 1:
            ours[heirs[0]] = ours.pop(key)
        elif now is None:
            by_key |= {key: earlier} if earlier.file else {}
        elif now.file is None and earlier.file:
            by_key[key] = replace(earlier, student=now.student)
    return list(by_key.values()), ours


def tasks_of(
    submissions: Sequence[Submission],
    published: Mapping[Key, Grade],
    settings: GradingSettings,
    out: Path,
    *,
    forced: frozenset[str] = frozenset(),
    students: Collection[str] = (),
) -> Tasks:
    """Returns what is to be done, given the published grades and those of an interrupted run.

    Checks in `forced` are graded again whatever their grade. With `students`, no other student is graded.
    """
    interrupted, labs = _read_grades(out / NEW, out), {number: find_lab(number) for number in settings.labs}
    result = Tasks([], [], Counter())
    for submission in submissions:
        lab, earlier, key = labs[submission.lab], published.get(_key(submission)), _key(submission)
        selected = not students or submission.student.student_id in students
        task = _task(submission, earlier, settings, lab, forced) if selected else None
        if task is None:
            if earlier:
                current = replace(rescored(earlier, lab), submission=submission)
                result.kept.append(stamped(current, lab) if selected else current)
            continue
        if task.earlier:
            result.again.update((lab.number, check) for check in task.checks)
        new = interrupted.get(key)
        if new and _answers(new, task, settings, lab):
            result.kept.append(replace(new, submission=submission))
        else:
            result.open.append(task)
    return result


def _task(
    submission: Submission, earlier: Grade | None, settings: GradingSettings, lab: Lab, forced: frozenset[str]
) -> GradingTask | None:
    """Returns what is to be graded of a submission, or None if its grade holds."""
    same_file = earlier and earlier.submission.sha256 == submission.sha256
    if earlier is None or not same_file or not earlier.gradable or earlier.isolation != settings.isolation:
        return GradingTask(submission)
    if earlier.report is None:
        return None
    own = {check.name for exercise in exercises_of(lab) for check in exercise.checks}
    checks = changed_checks(earlier, lab) | (forced & own)
    if checks and earlier.report.unusable:
        return GradingTask(submission)
    return GradingTask(submission, earlier, with_dependents(checks, lab)) if checks else None


def _answers(new: Grade, task: GradingTask, settings: GradingSettings, lab: Lab) -> bool:
    """Returns whether a grade that an interrupted run made is the one that the task asks for."""
    same_file = new.submission.sha256 == task.submission.sha256
    old = task.earlier.judged if task.earlier and not settings.pool.fixed else {}
    fresh = all(new.judged.get(check) != old[check] for check in task.checks if check in old)
    return same_file and fresh and _task(task.submission, new, settings, lab, frozenset()) is None
