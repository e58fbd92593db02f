"""Batch grading of a class: stores each grade at once, resumes an interrupted run, and writes the reports."""

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import Lab, LatePolicy, find_lab
from rankzero.errors import UserError
from rankzero.grading.executors import run_locally, run_on_ray
from rankzero.grading.grade import Flag, Grade, Student, Submission, write_grade
from rankzero.grading.grader import GradingSettings
from rankzero.grading.grading_tasks import NEW, PUBLISHED, Tasks
from rankzero.grading.intake.late_policy import days_late, late_penalty
from rankzero.grading.intake.safe_names import safe_name
from rankzero.grading.intake.time_notes import with_time_note
from rankzero.grading.intake.timestamps import seconds_late
from rankzero.grading.report import github_classroom_results, gradescope_results
from rankzero.grading.report.anonymity import anonymous_changes, anonymous_grades
from rankzero.grading.report.code_pages import write_code_pages
from rankzero.grading.report.course_csv import write_course_gradebooks
from rankzero.grading.report.differences import Difference
from rankzero.grading.report.gradebook_csv import write_gradebook
from rankzero.grading.report.html_pages import write_pages
from rankzero.grading.report.predictions_report import write_predictions
from rankzero.grading.scan.code_similarity import similarity_flags
from rankzero.grading.scan.static_scan import scan

EXECUTORS = {"local": run_locally, "ray": run_on_ray}
MAX_FIRST_FAILURES = 4  # after as many failures and no grade, the machine is taken to be the cause


def grade_all(
    tasks: Tasks,
    settings: GradingSettings,
    out: Path,
    *,
    jobs: int,
    executor: str,
    progress: Callable[[Grade, bool], None],
) -> list[Grade]:
    """Does the open tasks. Returns all grades, by lab and student; those in OUT are not replaced yet.

    `progress` is called with each grade and whether it was in OUT before. UserError if the machine cannot grade.
    """
    grades = list(tasks.kept)
    for grade in grades:
        progress(grade, True)
    succeeded = 0
    for number, grade in enumerate(EXECUTORS[executor](tasks.open, settings, jobs) if tasks.open else (), start=1):
        write_grade(grade, _grade_file(grade.submission, out, NEW))
        progress(grade, False)
        grades.append(grade)
        succeeded += grade.gradable
        if number == MAX_FIRST_FAILURES and not succeeded:
            raise UserError(f"none of the first {number} submissions can be graded: {grade.trouble}.")
    return sorted(grades, key=lambda grade: (grade.submission.lab, grade.submission.student.student_id))


def _grade_file(submission: Submission, out: Path, folder: str = PUBLISHED) -> Path:
    return out / folder / submission.lab / f"{safe_name(submission.student.student_id)}.json"


def _labs(submissions: Iterable[Submission]) -> dict[str, Lab]:
    """Returns the labs of these submissions, by number."""
    return {number: find_lab(number) for number in {submission.lab for submission in submissions}}


def with_lateness(grades: Sequence[Grade], due: datetime | None, policy: LatePolicy | None) -> list[Grade]:
    """Returns the grades with the days late and the penalty, by `policy` or else by each lab's own policy.

    The deadline is `due`, and later for a student with an extension.
    """
    labs, late_grades = _labs(grade.submission for grade in grades), []
    for grade in grades:
        lab_policy = policy or labs[grade.submission.lab].grading.late
        own_due = due + timedelta(hours=grade.extension_hours) if due else None
        seconds = seconds_late(grade.submission.submitted_at, own_due)
        penalty = late_penalty(lab_policy, grade.max_points, seconds)
        grade = replace(grade, late_days=days_late(lab_policy, seconds), late_penalty=penalty)
        late_grades.append(replace(grade, submission=with_time_note(grade.submission, due, late=seconds > 0)))
    return late_grades


def with_flags(grades: Sequence[Grade]) -> list[Grade]:
    """Returns the grades with flags: of each submission by itself, and of code that several students share."""
    sources: dict[str, dict[str, bytes]] = defaultdict(dict)  # by lab and student
    for grade in grades:
        if grade.submission.file:
            sources[grade.submission.lab][grade.submission.student.student_id] = grade.submission.file.read_bytes()
    similar, students = {}, {grade.submission.student for grade in grades}
    names = {student.student_id: student.full_name or student.student_id for student in students}
    for number, lab_sources in sources.items():
        lab = find_lab(number)
        similar[number] = similarity_flags(lab_sources, lab.stubs.read_bytes(), lab.reference.read_bytes(), names)

    def flags(submission: Submission) -> tuple[Flag, ...]:
        student_id, number = submission.student.student_id, submission.lab
        source = sources.get(number, {}).get(student_id)
        if source is None:
            return ()
        return (*scan(source, find_lab(number).reference.read_bytes()), *similar[number].get(student_id, ()))

    return [replace(grade, flags=flags(grade.submission)) for grade in grades]


def write_reports(
    grades: Sequence[Grade],
    out: Path,
    due: datetime | None,
    changes: Sequence[Difference] = (),
    numbers: Mapping[str, Student] | None = None,
) -> None:
    """Replaces the grades in OUT, and writes pages, the gradebook and the files for Gradescope and GitHub Classroom.

    Files of students who are in the class no more are removed. With `numbers`, by student, pages are anonymous.
    """
    labs = _labs(grade.submission for grade in grades)
    written = set()
    for grade in grades:
        lab = labs[grade.submission.lab]
        file = _grade_file(grade.submission, out)
        write_grade(grade, file)
        written.add(file)
        for folder, results in (("gradescope", gradescope_results), ("classroom", github_classroom_results)):
            contents = json.dumps(results.results(grade, lab), indent=1)
            write_atomically(out / folder / lab.number / file.name, contents)
            written.add(out / folder / lab.number / file.name)
    deadlines = dict.fromkeys(labs, due.isoformat()) if due else {}
    write_gradebook(grades, out / "grades.csv", deadlines)
    write_course_gradebooks(grades, out)
    write_predictions(grades, out)
    if numbers is not None:
        changes = anonymous_changes(changes, grades, numbers)
        grades = anonymous_grades(grades, numbers)
    written |= write_pages(grades, out, deadlines, changes) | write_code_pages(grades, out)
    for pattern in ("grades/*/*.json", "gradescope/*/*.json", "classroom/*/*.json", "students/*.html", "code/*/*.html"):
        for file in set(out.glob(pattern)) - written:
            file.unlink()
    shutil.rmtree(out / NEW, ignore_errors=True)
