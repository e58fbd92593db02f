"""Terminal feedback: one student's grade as `rankzero feedback` prints it."""

import functools

from rich.console import Console

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.escape_text import escape_name
from rankzero.exercises.study import report_display
from rankzero.grading.grade import Grade
from rankzero.grading.report.feedback_text import TRUSTED, adjusted, notes, penalty, summary


def show(grade: Grade, console: Console) -> None:
    """Prints one grade for its student, without flags, which are for the instructor.

    Text of the student can neither control the terminal nor add rich's markup.
    """
    student, lab = grade.submission.student, find_lab(grade.submission.lab)
    name = escape_name(student.full_name)
    title = f"{name} ({escape_name(student.student_id)})" if name else escape_name(student.student_id)
    print_line = functools.partial(report_display.print_paragraph, console=console)
    print_line(f"{title}, Lab {lab.number}: {lab.title}", style="bold")
    if grade.isolation != "sandbox":
        print_line(TRUSTED, style="yellow")
    console.print()
    if grade.gradable and grade.report:
        report_display.show(grade.report, exercises_of(lab), console)
        for line in (*penalty(grade), *adjusted(grade), *notes(grade)):
            print_line(line, style="yellow")
    else:
        for line in (line for line in (*summary(grade), *adjusted(grade)) if line != TRUSTED):
            print_line(line)
