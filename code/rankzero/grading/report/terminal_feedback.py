"""One student's grade in a terminal, as `rankzero feedback` prints it."""

from rich.console import Console

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.escape_text import escape_name
from rankzero.exercises.study import report_display as display
from rankzero.grading.grade import Grade
from rankzero.grading.report.feedback_text import TRUSTED, notes, penalty, summary


def show(grade: Grade, console: Console) -> None:
    """Prints one grade, as its student should read it: flags are for the instructor, on the class page.

    Nothing that comes from the student steers the terminal, nor is taken for rich's markup.
    """
    student, lab = grade.submission.student, find_lab(grade.submission.lab)
    name = escape_name(f"{student.first_name} {student.last_name}".strip())
    who = f"{name} ({escape_name(student.student_id)})" if name else escape_name(student.student_id)
    _say(f"{who}, Lab {lab.number}: {lab.title}", console, "bold")
    if grade.isolation != "sandbox":
        _say(TRUSTED, console, "yellow")
    console.print()
    if grade.gradable and grade.report:
        display.show(grade.report, exercises_of(lab), console)
        for line in (*penalty(grade), *notes(grade)):
            _say(line, console, "yellow")
    else:
        for line in (one for one in summary(grade) if one != TRUSTED):
            _say(line, console)


def _say(text: str, console: Console, style: str = "") -> None:
    display.paragraph(text, 0, console, style)
