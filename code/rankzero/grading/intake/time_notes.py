"""Notes on times of hand-in that may be those of a download or a copy, which count only where there is a deadline."""

from dataclasses import replace
from datetime import datetime

from rankzero.grading.grade import Submission

UNKNOWN = "The time of hand-in is unknown"
COPIED = "The time of hand-in may be that of a copy"


def with_time_note(submission: Submission, due: datetime | None, *, late: bool) -> Submission:
    """Returns the submission with the note that its deadline asks for, and without the note of an earlier run."""
    notes = other_notes(submission)
    if due and submission.file and submission.one_time and not submission.submitted_at:
        notes = (f"{UNKNOWN}, because {submission.one_time}: nobody loses points for lateness.", *notes)
    elif late and submission.one_time:
        advice = "copy them with their times and use --retime"
        notes = (f"{COPIED}, because {submission.one_time}: {advice}.", *notes)
    return replace(submission, notes=notes)


def time_notes(submission: Submission) -> list[str]:
    """Returns the notes that `with_time_note` has made."""
    return [note for note in submission.notes if note.startswith((UNKNOWN, COPIED))]


def other_notes(submission: Submission) -> tuple[str, ...]:
    """Returns all other notes."""
    return tuple(note for note in submission.notes if note not in time_notes(submission))
