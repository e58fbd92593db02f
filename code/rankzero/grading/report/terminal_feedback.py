"""Terminal feedback: one student's grade as `rankzero feedback` prints it."""

from rich.console import Console

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.escape_text import escape_name
from rankzero.exercises.study import report_display
from rankzero.grading.grade import Grade
from rankzero.grading.report.feedback_text import TRUSTED, notes, penalty, summary


def show(grade: Grade, console: Console) -> None:
    """Prints one grade for its student, without flags, which are for the instructor.

    Text of the student can neither control the terminal nor add rich's markup.
    """
    student, lab = grade.submission.student, find_lab(grade.submission.lab)
    name = escape_name(student.full_name)
    title = f"{name} ({escape_name(student.student_id)})" if name else escape_name(student.student_id)
    _print(f"{title}, Lab {lab.number}: {lab.title}", console, "bold")
    if grade.isolation != "sandbox":
        _print(TRUSTED, console, "yellow")
    console.print()
    if grade.gradable and grade.report:
        report_display.show(grade.report, exercises_of(lab), console)
        for line in (*penalty(grade), *notes(grade)):
            _print(line, console, "yellow")
    else:
        for line in (line for line in summary(grade) if line != TRUSTED):
            _print(line, console)


def _print(text: str, console: Console, style: str = "") -> None:
    report_display.paragraph(text, 0, console, style)
