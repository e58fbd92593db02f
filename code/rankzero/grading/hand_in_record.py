"""Hand-in record: OUT/hand-ins.json keeps each file's time of hand-in, notes and passed-over files, by its digest.

A folder that was copied, files that were touched, or a roster that came later would otherwise change who was late, and
which of a student's files is graded.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankzero.atomic_write import write_atomically
from rankzero.errors import UserError
from rankzero.grading.grade import Submission

FILE = "hand-ins.json"
Record = dict[str, dict[str, dict[str, Any]]]  # lab -> student -> digest -> facts


def keep_facts(collected: Sequence[Submission], out: Path, retime: bool) -> list[Submission]:
    """Returns the submissions with the recorded facts of files that were collected before, and records those of others.

    With `retime` the present facts replace the recorded ones. A student whose id a roster has changed is found by the
    file, if its former owner is no longer there. UserError if the record cannot be read.
    """
    record = read_record(out)
    present = {submission.student.student_id for submission in collected}
    kept = []
    for submission in collected:
        student_id, files = submission.student.student_id, record.setdefault(submission.lab, {})
        own = files.setdefault(student_id, {})
        former = [other for other in files if other not in present and submission.sha256 in files[other]]
        facts = own.get(submission.sha256) or (files[former[0]][submission.sha256] if len(former) == 1 else None)
        if facts and not retime:
            notes = facts["notes"] if submission.sha256 in own else submission.notes
            submission = replace(
                submission,
                submitted_at=facts["submitted_at"],
                notes=tuple(notes),
                one_time=facts.get("one_time", ""),
            )
        if submission.file:
            own[submission.sha256] = {
                "submitted_at": submission.submitted_at,
                "notes": list(submission.notes),
                "passed_over": list(submission.passed_over),
                "one_time": submission.one_time,
            }
        kept.append(submission)
    write_atomically(out / FILE, json.dumps(record, indent=1))
    return kept


def read_record(out: Path) -> Record:
    """Returns the record, which is empty before the first run. UserError if it cannot be read."""
    file = out / FILE
    try:
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read ({error}): restore it, or delete it and use --retime.") from None
