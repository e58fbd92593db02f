"""Roster files: CSV as course systems and spreadsheets write it, read into a Roster."""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rankzero.errors import UserError
from rankzero.grading.grade import Student
from rankzero.grading.intake.roster import Roster, letters, split_name
from rankzero.grading.intake.safe_names import fold_case, printable
from rankzero.grading.intake.system_names import PARTICIPANT

MAX_BYTES = 16 * 2**20
Cells = Mapping[str, str]
Line = tuple[int, Cells, Student]  # the number of a line, its cells by column, and the student in it

# The systems' names of columns, without case, spaces, hyphens and underscores; the first that is present counts.
# nbgrader: id, lms_user_id; Gradescope: SID or Student ID; GitHub Classroom and Moodle's grading worksheet: identifier;
# Moodle: ID number, Surname; Brightspace: OrgDefinedId; Sakai: Display ID; ILIAS: Login, Matrikelnummer.
_COLUMNS = {
    "student_id": (
        *("studentid", "sid", "idnumber", "idnummer", "matrikelnummer", "orgdefinedid", "identifier", "displayid"),
        *("id", "username", "login", "benutzername"),
    ),
    "last_name": ("lastname", "surname", "familyname", "nachname"),
    "first_name": ("firstname", "givenname", "preferredname", "vorname"),
    "name": ("name", "fullname", "studentname", "student", "vollständigername"),
    "email": ("email", "emailaddress", "emailadresse"),
    "github": ("githubusername",),
    "login": ("username", "login", "benutzername"),
    "group": ("group", "groups", "groupname", "team", "gruppe", "gruppen"),
}
_NAMES = ("student_id", "last_name", "first_name", "name", "email", "github", "login")
_OF_PERSONS = {"sisuserid", "sisloginid", *(column for name in _NAMES for column in _COLUMNS[name])}
_NO_STUDENTS = {"", "points possible", "points", "total", "totals", "average"}  # first cells of rows on assignments
_CANVAS_TEST = ("Test", "Student")  # first and last name of the student that Canvas makes for tests
_STAFF = {"instructor", "ta", "teacher", "reader", "teachingassistant"}  # in a column `role`
_SHORTENED = re.compile(r"\d+(?:[.,]\d+)?e\+\d+|\d+[.,]0+|\d{1,3}(?:,\d{3})+", re.IGNORECASE)
_TEXT = re.compile(r'="(.*)"|\'(?=[=+\-@\u2212|%\d])(.*)')  # a cell that shall stay a text, in a spreadsheet
TITLE_LINES = 5  # at most so many lines before the header


def read_roster(path: Path) -> Roster:
    """Returns the students of a CSV file: UTF-8, or UTF-16 with its mark; commas, semicolons or tabs; with a header.

    Its columns are student_id, or else the email; and, if present, last_name, first_name (or name), email,
    github_username, username and group. The headers of nbgrader, Gradescope, GitHub Classroom, Moodle, Canvas,
    Blackboard, Brightspace, ILIAS and Sakai are understood. UserError names file, line and value.
    """
    rows = _without_title(_rows(path, _text(path)))
    if not rows:
        raise UserError(f"The roster {path} is empty: its first line must name its columns, such as student_id,email.")
    header = rows[0][1]
    lines = [(line, _cells(path, line, row, header)) for line, row in rows[1:]]
    columns = {_key(column) for column in header}
    is_canvas = columns & {"sisuserid", "sisloginid"} or {"student", "id"} <= columns
    lines = [(line, cells) for line, cells in lines if _is_student(cells, header)]
    read = _canvas_student if is_canvas else _reader(path, header, [cells for _, cells in lines])
    students = [(line, cells, read(cells)) for line, cells in lines]
    if not students:
        raise UserError(f"The roster {path} has a header but no students: add a line for each.")
    for line, _, student in students:
        _require_id(path, line, student.student_id)
    students, sections = _without_repeated(students), students
    usernames = [(line, fold_case(cells.get("githubusername", "")), student) for line, cells, student in students]
    _require_unique(path, "student_id", [(line, student.student_id) for line, _, student in students])
    _require_unique(path, "github_username", [(line, name) for line, name, _ in usernames])
    return Roster(
        tuple(student for *_, student in students),
        {name: student for _, name, student in usernames if name},
        _groups([(cells, student) for _, cells, student in sections]),
        {number: student for _, cells, student in students if (number := _number(cells, student))},
    )


def _without_repeated(students: Sequence[Line]) -> list[Line]:
    """Returns the lines without those that repeat a student, as of one who is in two sections."""
    seen: set[Student] = set()
    kept = []
    for line, cells, student in students:
        if student not in seen or not (student.last_name or student.email):
            kept.append((line, cells, student))
        seen.add(student)
    return kept


def _require_unique(path: Path, column: str, values: Sequence[tuple[int, str]]) -> None:
    """Raises UserError if a value is on two lines."""
    first: dict[str, int] = {}
    for line, value in values:
        if value and (before := first.setdefault(value, line)) != line:
            raise UserError(
                f"{path}, line {line}: {column} {printable(value)!r} is on line {before} already: keep one of them."
            )


def _groups(students: Sequence[tuple[Cells, Student]]) -> dict[str, tuple[Student, ...]]:
    """Returns the members of each group, and under "" the students without one; {} if there are no groups."""
    groups: dict[str, dict[Student, None]] = {}
    for cells, student in students:
        for group in re.split("[,;]", _first(cells, _COLUMNS["group"])):
            groups.setdefault(letters(group), {})[student] = None
    return {name: tuple(members) for name, members in groups.items()} if any(groups.keys() - {""}) else {}


def _number(cells: Cells, student: Student) -> tuple[str, str] | None:
    """Returns a course system and its own number of the student, or None."""
    if participant := PARTICIPANT.fullmatch(cells.get("identifier") or cells.get("id", "")):
        return "Moodle", participant["number"]
    return ("Canvas", student.lms_id) if student.lms_id else None


def _cells(path: Path, line: int, row: Sequence[str], header: Sequence[str]) -> Cells:
    """Returns the cells of a line by the keys of their columns."""
    if extra := [value for value in row[len(header) :] if value.strip()]:
        value = printable(extra[0])
        raise UserError(f"{path}, line {line}: more values than columns, from {value!r} on: quote such a value.")
    return {_key(column): _clean(value) for column, value in zip(header, row, strict=False)}


def _clean(value: str) -> str:
    """Returns the value without repeated spaces, invisible letters, and what keeps it a text in a spreadsheet."""
    visible = "".join(letter for letter in value if unicodedata.category(letter) != "Cf")
    text = unicodedata.normalize("NFC", " ".join(visible.split()))
    return next((part for part in match.groups() if part is not None), "") if (match := _TEXT.fullmatch(text)) else text


def _without_title(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Returns the rows from the header on, where a title stands above it."""
    known = {*_COLUMNS["student_id"], *_COLUMNS["email"], "sisuserid", "sisloginid"}
    for place, (_, row) in enumerate(rows[:TITLE_LINES]):
        if len(row) > 1 and known & {_key(column) for column in row}:
            return rows[place:]
    return rows


def _is_student(cells: Cells, header: Sequence[str]) -> bool:
    """Returns whether a line is a student's: not one on assignments, of a teacher, or of a course system's test."""
    return not (_is_on_assignments(cells, header) or _is_of_staff(cells) or _is_canvas_test(cells))


def _is_on_assignments(cells: Cells, header: Sequence[str]) -> bool:
    """Returns whether a gradebook's line is about points: nobody's names or ids are in it, but for its first word."""
    first, keys = _key(header[0]), {_key(column) for column in header}
    if cells.get(first, "").lower() not in _NO_STUDENTS or len(cells) < 2 or not keys & {"student", "lastname"}:
        return False
    return not any(cells.get(key) for key in _OF_PERSONS if key != first)


def _is_of_staff(cells: Cells) -> bool:
    return cells.get("role", "").lower().replace(" ", "") in _STAFF or cells.get("username", "").endswith(
        "_previewuser"
    )


def _is_canvas_test(cells: Cells) -> bool:
    return split_name(cells.get("student", "")) == _CANVAS_TEST and not cells.get("sisuserid")


def _key(column: str) -> str:
    return re.sub(r"[\s_-]", "", column).lower()


def _first(cells: Cells, columns: Sequence[str]) -> str:
    """Returns the first of these cells that is not empty, or ''."""
    return next((cells[column] for column in columns if cells.get(column)), "")


def _require_id(path: Path, line: int, student_id: str) -> None:
    if not student_id:
        raise UserError(f"{path}, line {line}: the student's id is empty: every line of a roster must have one.")
    if _SHORTENED.fullmatch(student_id):
        raise UserError(
            f"{path}, line {line}: a spreadsheet has changed the id to {student_id!r}: export the roster again, and do "
            "not save it in a spreadsheet, or make its ids text there first."
        )


# ------------------------------------------------------------------------------------------------------ kinds of roster


def _reader(path: Path, header: Sequence[str], lines: Sequence[Cells]) -> Callable[[Cells], Student]:
    """Returns the function that makes a student of a line. UserError for a header that names no id and no emails."""
    keys = [_key(column) for column in header]
    known = {column for columns in _COLUMNS.values() for column in columns}
    if twice := [key for key, count in Counter(keys).items() if count > 1 and key in known]:
        raise UserError(f"{path}, line 1: the column {printable(twice[0])!r} occurs twice: remove one of the two.")
    columns = {name: [key for key in names if key in keys] for name, names in _COLUMNS.items()}
    ids = next((key for key in columns["student_id"] if any(cells.get(key) for cells in lines)), "")
    emails = columns["email"][:1]
    if not ids and "studentid" not in keys and emails and all("@" in cells.get(emails[0], "") for cells in lines):
        ids = emails[0]
    if not ids and not columns["student_id"]:
        listed = ", ".join(repr(printable(column, 30)) for column in header[:8])
        raise UserError(f"{path}, line 1: the column student_id is missing in {listed}: rename the column of ids.")

    def student(cells: Cells) -> Student:
        first, last = _first(cells, columns["first_name"]), _first(cells, columns["last_name"])
        if not (first or last):
            first, last = split_name(_first(cells, columns["name"]))
        login = _first(cells, columns["login"]).removeprefix("#")  # Brightspace writes #123, so that it stays a text
        email = _first(cells, columns["email"])
        student_id = cells.get(ids, "").removeprefix("#") or ("" if "studentid" in keys else login or email)
        return Student(student_id, last, first, email, "" if login == student_id else login)

    return student


def _canvas_student(cells: Cells) -> Student:
    """Returns the student of a line of Canvas's gradebook: the id is the SIS user id, or the login, or Canvas's own."""
    login, number = cells.get("sisloginid", ""), cells.get("id", "")
    student_id = _first(cells, ("sisuserid", "sisloginid", "id"))
    name = cells.get("student") or f"{cells.get('lastname', '')}, {cells.get('firstname', '')}"
    first, last = split_name("" if name == student_id else name)
    email = cells.get("email") or (login if "@" in login else "")
    return Student(student_id, last, first, email, login, number)


# ----------------------------------------------------------------------------------------------------- text of the file


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"The roster {path} cannot be read ({error.strerror}): name a CSV file.") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"The roster {path} is larger than {MAX_BYTES // 2**20} MiB: is it a CSV file of one class?")
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        value, kind = data[error.start : error.start + 1].hex(), encoding.upper().removesuffix("-SIG")
        raise UserError(f"{path}, line {line}: byte 0x{value} is no {kind}: save the roster as CSV UTF-8.") from None


def _rows(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """Returns each line that is not empty, with its number. Excel's first line sep=; names the delimiter."""
    first, _, rest = text.partition("\n")
    named = re.fullmatch(r'"?sep=(.)"?\s*', first)
    header = (rest if named else text).lstrip().partition("\n")[0]
    delimiter = named[1] if named else max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(rest if named else text, newline=""), delimiter=delimiter, strict=True)
    before = 1 if named else 0
    rows: list[tuple[int, list[str]]] = []
    try:
        for row in reader:
            if any(ord(letter) < 32 and not letter.isspace() for cell in row for letter in cell):
                raise csv.Error("a control character")
            if any(cell.strip() for cell in row):
                rows.append((before + reader.line_num, row))
    except csv.Error as error:
        line = before + reader.line_num
        raise UserError(f"{path}, line {line}: not valid CSV ({error}): fix it or export it again.") from None
    return rows
