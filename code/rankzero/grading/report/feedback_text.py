"""Feedback text: the sentences on a grade for Gradescope, GitHub Classroom and the terminal."""

from collections.abc import Iterator

from rankzero.exercises.checks.escape_text import escape_text
from rankzero.exercises.checks.report import Report, Result
from rankzero.grading.grade import Grade

NOTES, NOTE_LIMIT = 20, 500  # notes of the intake that are shown, and characters of each note
TRUSTED = "Graded without a sandbox: the code that was graded could have changed these points."


def summary(grade: Grade) -> Iterator[str]:
    """Yields the result of grading, a sentence per line."""
    if grade.isolation != "sandbox":
        yield TRUSTED
    if not grade.gradable:
        yield "This could not be graded and does not count as zero: grading itself failed, and will be repeated."
        yield f"The error: {escape_text(grade.trouble)}"
    elif not grade.report:
        yield "Nothing to grade was handed in: there is no exercises.py for this lab."
    else:
        yield f"{grade.points} of {grade.max_points} points."
        if grade.report.unusable:
            sentence, *source = escape_text(grade.report.unusable).splitlines()
            yield "\n".join([f"{sentence} Nothing can be checked before that is fixed.", *source])
    yield from notes(grade)


def notes(grade: Grade) -> list[str]:
    """Returns the first notes of the intake."""
    return [escape_text(note, NOTE_LIMIT) for note in grade.submission.notes[:NOTES]]


def penalty(grade: Grade) -> Iterator[str]:
    """Yields the reason for a late penalty, if there is one."""
    if grade.gradable and grade.report and grade.late_days:
        days = "1 day" if grade.late_days == 1 else f"{grade.late_days} days"
        left = grade.raw_score - grade.taken_off
        yield f"Handed in {days} late: {grade.taken_off:g} taken off, which leaves {left:g}."


def adjusted(grade: Grade) -> Iterator[str]:
    """Yields what people have decided, and the score that follows."""
    for row in grade.adjustments:
        who, when, comment = (escape_text(text, NOTE_LIMIT, lines=False) for text in (row.who, row.when, row.comment))
        by = " ".join(filter(None, (f"by {who}" if who else "", f"on {when}" if when else "")))
        yield ": ".join(filter(None, (f"Adjusted {by}".strip(), row.text, comment))).rstrip(".") + "."
    if grade.decided:
        yield f"The score is {grade.score:g} of {grade.max_points}."


def repeat(grade: Grade) -> str:
    """Returns the command that repeats the results."""
    return f"To repeat it: rankzero check {grade.submission.lab} --file exercises.py --seed {grade.repeat_seed}"


def first_failures(report: Report) -> set[str]:
    """Returns the first failing check of each exercise; remarks on the whole exercise are shown with that check."""
    return set({result.exercise: result.check for result in report.results[::-1] if result.status != "pass"}.values())


def result_text(report: Report, result: Result, with_exercise: bool) -> str:
    """Returns the reason for a failure; `with_exercise` adds the exercise's known mistake and printed output."""
    parts = [escape_text(result.text)] if result.text else []
    if with_exercise:
        for mistake in report.diagnoses:
            if mistake.exercise == result.exercise:
                known = "One of two known mistakes" if mistake.together else "A known mistake"
                parts.append(f"{known}: {mistake.explanation}\nRead {mistake.read}")
        outputs = (other.printed for other in report.results if other.exercise == result.exercise)
        if printed := next((text for text in outputs if text.strip()), ""):
            parts.append(f"The code printed:\n{escape_text(printed)}")
    return "\n\n".join(parts)
