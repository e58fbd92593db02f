"""A grade in plain text, for programs that show text: one place for its wording and for what text may hold."""

from collections.abc import Iterator

from rankzero.exercises.checks.escape_text import escape_text
from rankzero.exercises.checks.report import Report, Result
from rankzero.grading.grade import Grade

NOTES, NOTE_LIMIT = 20, 500  # how many notes of the intake are shown, and how many characters of each
TRUSTED = "Graded without a sandbox: the code that was graded could have changed these points."


def summary(grade: Grade) -> Iterator[str]:
    """What came of grading, a sentence a line."""
    if grade.isolation != "sandbox":
        yield TRUSTED
    if not grade.gradable:
        yield "This could not be graded, and that is no zero: grading itself failed, and it will be done again."
        yield f"What went wrong: {escape_text(grade.trouble)}"
    elif not grade.report:
        yield "Nothing to grade was handed in: there is no exercises.py for this lab."
    else:
        yield f"{grade.points} of {grade.max_points} points."
        if grade.report.unusable:
            yield f"{escape_text(grade.report.unusable)} Nothing can be checked before that is mended."
    yield from notes(grade)


def notes(grade: Grade) -> list[str]:
    """What collecting found odd, the first of it."""
    return [escape_text(note, NOTE_LIMIT) for note in grade.submission.notes[:NOTES]]


def penalty(grade: Grade) -> Iterator[str]:
    """Why the score is less than what was earned, if it is."""
    if grade.gradable and grade.report and grade.late_days:
        days = "1 day" if grade.late_days == 1 else f"{grade.late_days} days"
        yield f"Handed in {days} late: {taken_off(grade):g} taken off, which leaves {grade.score:g}."


def taken_off(grade: Grade) -> float:
    """Points that the penalty really takes: no score is below 0."""
    return round(grade.points - grade.score, 6)


def repeat(grade: Grade) -> str:
    """How to see the same results again."""
    return f"To repeat it: rankzero check {grade.submission.lab} --file exercises.py --seed {grade.seed}"


def first_failures(report: Report) -> set[str]:
    """Of each exercise, the first check that does not pass: there goes what is to be said of the whole exercise."""
    first: dict[str, str] = {}
    for result in report.results:
        if result.status != "pass":
            first.setdefault(result.exercise, result.check)
    return set(first.values())


def result_text(report: Report, result: Result, whole: bool) -> str:
    """What is wrong. `whole`: and what is to be said of its exercise, a known mistake and what the code printed."""
    parts = [escape_text(result.text)] if result.text else []
    if whole:
        for one in report.diagnoses:
            if one.exercise == result.exercise:
                parts.append(f"A known mistake, {one.name.replace('_', ' ')}: {one.explanation}\nRead {one.read}")
        mine = (other.printed for other in report.results if other.exercise == result.exercise)
        if printed := next((text for text in mine if text.strip()), ""):
            parts.append(f"The code printed:\n{escape_text(printed)}")
    return "\n\n".join(parts)
