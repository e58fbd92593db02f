"""Roster: the students of a class, from a CSV file as course systems export it."""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rankzero.errors import UserError
from rankzero.grading.grade import Student
from rankzero.grading.intake.safe_names import fold_case, printable

MAX_BYTES = 16 * 2**20

# The systems' names of columns, without case, spaces and underscores; the first that is present counts.
# nbgrader: id, lms_user_id; Gradescope: SID or Student ID; GitHub Classroom: identifier; Moodle: ID number, Surname.
_COLUMNS = {
    "student_id": ("studentid", "sid", "idnumber", "identifier", "id"),
    "last_name": ("lastname", "surname"),
    "first_name": ("firstname",),
    "name": ("name", "fullname"),
    "email": ("email", "emailaddress"),
    "github": ("githubusername",),
}


@dataclass(frozen=True)
class Roster:
    """The students in the order of the file, found by any of their names."""

    students: tuple[Student, ...]
    usernames: Mapping[str, Student] = field(default_factory=dict)  # by GitHub user name, in lower case

    def find(self, name: str) -> Student | None:
        """Returns the student with this id, GitHub user name, email, full name, or email up to the @, in this order.

        Case matters only if two ids differ in nothing else. None for an unknown or an ambiguous name.
        """
        if student := self.by_id.get(unicodedata.normalize("NFC", name)):
            return student
        key = fold_case(name)
        return next((table[key] for table in self._tables if key in table), None)

    def all_named(self, name: str) -> tuple[Student, ...]:
        """Returns every student with this id, email or full name: for a name that `find` does not know."""
        key = fold_case(name)
        return tuple(
            student
            for student in self.students
            if key in {fold_case(student.student_id), fold_case(student.email), *full_names(student)}
        )

    @cached_property
    def by_id(self) -> Mapping[str, Student]:
        """Returns the students by id."""
        return {student.student_id: student for student in self.students}

    @cached_property
    def _tables(self) -> Sequence[Mapping[str, Student]]:
        """Students by their names, in the order of `find`."""
        return (
            _unique((fold_case(student.student_id), student) for student in self.students),
            self.usernames,
            _unique((fold_case(student.email), student) for student in self.students),
            _unique((name, student) for student in self.students for name in full_names(student)),
            _unique((fold_case(student.email.partition("@")[0]), student) for student in self.students),
        )


def full_names(student: Student) -> set[str]:
    """Returns the forms of a full name, in lower case: 'ada lovelace', 'lovelace, ada', Canvas's 'lovelaceada'."""
    first, last = fold_case(student.first_name), fold_case(student.last_name)
    if not (first and last):
        return {first or last} - {""}
    joined = re.sub(r"[\W_]", "", last + first)
    return {f"{first} {last}", f"{last} {first}", f"{last}, {first}", joined}


def _unique(pairs: Iterable[tuple[str, Student]]) -> dict[str, Student]:
    """Returns the students by key, without keys that several students share."""
    unique = set(pairs)
    counts = Counter(key for key, _ in unique)
    return {key: student for key, student in unique if key and counts[key] == 1}


def read_roster(path: Path) -> Roster:
    """Returns the students of a CSV file: UTF-8, with commas, semicolons or tabs, and a header.

    The column student_id is required; last_name, first_name (or name), email and github_username are optional. The
    headers of nbgrader, Gradescope, Moodle and GitHub Classroom are understood. UserError names file, line and value.
    """
    rows = _rows(path, _text(path))
    if not rows:
        raise UserError(f"The roster {path} is empty: its first line must name its columns, such as student_id,email.")
    columns = _columns(path, rows[0][1])
    students: dict[str, Student] = {}
    usernames: dict[str, Student] = {}
    lines: dict[tuple[str, str], int] = {}  # of each id and user name
    for line, row in rows[1:]:
        if len(row) > len(rows[0][1]):
            extra = printable(row[len(rows[0][1])])
            raise UserError(f"{path}, line {line}: more values than columns, from {extra!r} on: quote such a value.")
        cells = {key: row[place] if place < len(row) else "" for key, place in columns.items()}
        student = _student(cells)
        if not student.student_id:
            raise UserError(f"{path}, line {line}: the student's id is empty: every line of a roster must have one.")
        github = fold_case(cells.get("github", ""))
        for column, value in (("student_id", student.student_id), ("github_username", github)):
            if value and (before := lines.setdefault((column, value), line)) != line:
                raise UserError(
                    f"{path}, line {line}: {column} {printable(value)!r} is on line {before} already: keep one of them."
                )
        students[student.student_id] = student
        if github:
            usernames[github] = student
    if not students:
        raise UserError(f"The roster {path} has a header but no students: add a line for each.")
    return Roster(tuple(students.values()), usernames)


def _student(cells: Mapping[str, str]) -> Student:
    """Returns the student of one line; a name in one column is split by `split_name`."""
    clean = {key: unicodedata.normalize("NFC", " ".join(value.split())) for key, value in cells.items()}
    first, last = clean.get("first_name", ""), clean.get("last_name", "")
    if not (first or last):
        first, last = split_name(clean.get("name", ""))
    return Student(clean["student_id"], last, first, clean.get("email", ""))


def split_name(name: str) -> tuple[str, str]:
    """Returns first and last name of 'Ada Lovelace' or 'Lovelace, Ada'."""
    if "," in name:
        last, _, first = name.partition(",")
    else:
        first, _, last = name.rpartition(" ")
    return first.strip(), last.strip()


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"The roster {path} cannot be read ({error.strerror}): name a CSV file.") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"The roster {path} is larger than {MAX_BYTES // 2**20} MiB: is it a CSV file of one class?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        value = data[error.start : error.start + 1].hex()
        raise UserError(f"{path}, line {line}: byte 0x{value} is no UTF-8: save the roster as CSV UTF-8.") from None


def _rows(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """Returns each line that is not empty, with its number."""
    header = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        for row in reader:
            if any(ord(letter) < 32 and not letter.isspace() for cell in row for letter in cell):
                raise csv.Error("a control character")
            if any(cell.strip() for cell in row):
                rows.append((reader.line_num, row))
    except csv.Error as error:
        raise UserError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}): fix it or export it again."
        ) from None
    return rows


def _columns(path: Path, header: Sequence[str]) -> dict[str, int]:
    """Returns the index of each column that is read, by its name in _COLUMNS."""
    names = [re.sub(r"[\s_-]", "", column).lower() for column in header]
    for column, count in Counter(names).items():
        if count > 1 and any(column in known for known in _COLUMNS.values()):
            raise UserError(f"{path}, line 1: the column {printable(column)!r} occurs twice: remove one of the two.")
    columns = {
        key: names.index(next(name for name in known if name in names))
        for key, known in _COLUMNS.items()
        if any(name in names for name in known)
    }
    if "student_id" not in columns:
        listed = ", ".join(repr(printable(column, 30)) for column in header[:8])
        raise UserError(f"{path}, line 1: the column student_id is missing in {listed}: rename the column of ids.")
    return columns
