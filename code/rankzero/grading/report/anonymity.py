"""Anonymous pages: each student is a number on them, and OUT/key.csv says who that is."""

import csv
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.errors import UserError
from rankzero.grading.grade import Grade, Student
from rankzero.grading.report.differences import Difference
from rankzero.grading.report.gradebook_csv import cell

FILE = "key.csv"
LEFT_OUT = "There are notes on the handed-in files. They may name a student, so they are in the grade's file only."


def student_numbers(grades: Sequence[Grade], out: Path, secret: str) -> dict[str, Student]:
    """Returns the anonymous student by the student's id, and writes OUT/key.csv.

    The order of the numbers tells nothing, as it follows from the run's secret. A number in the file stays.
    """
    students = {grade.submission.student.student_id: grade.submission.student for grade in grades}
    known = _read(out / FILE)
    order = sorted(students.keys() - known.keys(), key=lambda student_id: _order(secret, student_id))
    known |= {student_id: number for number, student_id in enumerate(order, start=max(known.values(), default=0) + 1)}
    lines = ["number,student_id,last_name,first_name,email"]
    for student_id, number in sorted(known.items(), key=lambda item: item[1]):
        student = students.get(student_id, Student(student_id))
        texts = (student.student_id, student.last_name, student.first_name, student.email)
        lines.append(",".join([str(number), *('"' + cell(text).replace('"', '""') + '"' for text in texts)]))
    write_atomically(out / FILE, "\n".join(lines) + "\n")
    (out / FILE).chmod(0o600)
    return {student_id: _anonymous(known[student_id]) for student_id in students}


def _anonymous(number: int) -> Student:
    return Student(f"{number:03}", f"{number:03}", "Student")


def _order(secret: str, student_id: str) -> bytes:
    return hmac.digest(secret.encode(), b"number\0" + student_id.encode("utf-8", "surrogatepass"), hashlib.sha256)


def _read(file: Path) -> dict[str, int]:
    """Returns the numbers of an earlier run by student. UserError for a file that `student_numbers` has not written."""
    if not file.exists():
        return {}
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            return {row["student_id"].removeprefix("'"): int(row["number"]) for row in csv.DictReader(lines)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file} cannot be read ({error}): restore it, or delete it for new numbers.") from None


def anonymous_grades(grades: Sequence[Grade], numbers: Mapping[str, Student]) -> list[Grade]:
    """Returns the grades as pages show them: by number, without the notes on files, which name folders."""
    mask = _mask(grades, numbers)
    return [
        replace(
            grade,
            submission=replace(
                grade.submission,
                student=numbers[grade.submission.student.student_id],
                notes=(LEFT_OUT,) * bool(grade.submission.notes),
            ),
            flags=tuple(
                replace(
                    flag,
                    text=mask(flag.text),
                    partners=tuple(_number_of(partner, numbers) for partner in flag.partners),
                )
                for flag in grade.flags
            ),
            adjustments=tuple(replace(row, comment=mask(row.comment)) for row in grade.adjustments),
        )
        for grade in grades
    ]


def _number_of(student_id: str, numbers: Mapping[str, Student]) -> str:
    return numbers[student_id].student_id if student_id in numbers else student_id


def anonymous_changes(
    changes: Sequence[Difference], grades: Sequence[Grade], numbers: Mapping[str, Student]
) -> list[Difference]:
    """Returns the differences as the class page shows them."""
    mask = _mask(grades, numbers)
    return [replace(row, student=numbers[row.student.student_id], reason=mask(row.reason)) for row in changes]


def _mask(grades: Sequence[Grade], numbers: Mapping[str, Student]) -> "Mask":
    names: dict[str, str] = {}
    for grade in grades:
        student = grade.submission.student
        for name in (student.student_id, student.full_name, student.last_name, student.first_name, student.email):
            names.setdefault(name.strip(), numbers[student.student_id].full_name)
    return Mask(names)


class Mask:
    """Replaces the names of students in a text by their numbers."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        longest_first = sorted(filter(None, names), key=len, reverse=True)
        self._pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)")

    def __call__(self, text: str) -> str:
        """Returns the text with numbers."""
        return self._pattern.sub(lambda match: self._names[match[0]], text)
