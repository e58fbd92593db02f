"""Rosters, due dates, late penalties and safe file names."""

import random
import re
from datetime import timedelta
from pathlib import Path

import pytest

from rankzero.curriculum import LatePolicy
from rankzero.errors import UserError
from rankzero.grading.intake.late_policy import late_penalty
from rankzero.grading.intake.read_roster import read_roster
from rankzero.grading.intake.roster import Roster
from rankzero.grading.intake.safe_names import printable, safe_name
from rankzero.grading.intake.timestamps import parse_time, seconds_late

HOUR = 3600
DAY = 24 * HOUR


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "roster.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "student_id,last_name,first_name,email\nada1,Lovelace,Ada,ada@x.org\n",
        "\ufeffstudent_id;last_name;first_name;email\r\nada1;Lovelace;Ada;ada@x.org\r\n\r\n",
        "id,first_name,last_name,email,lms_user_id\nada1,Ada,Lovelace,ada@x.org,77\n",
        "First Name,Last Name,SID,Email,Sections\nAda,Lovelace,ada1,ada@x.org,2\n",
        "Name,Student ID,Email\n Ada  Lovelace ,ada1,ada@x.org\n",
        'Full Name,Student ID,Email\n"Lovelace, Ada",ada1,ada@x.org\n',
        "First name\tSurname\tID number\tEmail address\nAda\tLovelace\tada1\tada@x.org\n",
    ],
    ids=["ours", "semicolons and BOM", "nbgrader", "Gradescope export", "one name", "last, first", "Moodle"],
)
def test_rosters_of_all_course_systems_are_read(tmp_path: Path, text: str) -> None:
    (ada,) = read_roster(write(tmp_path, text)).students
    assert (ada.student_id, ada.last_name, ada.first_name, ada.email) == ("ada1", "Lovelace", "Ada", "ada@x.org")


def test_the_roster_of_github_classroom_has_user_names(tmp_path: Path) -> None:
    text = '"identifier","github_username","github_id","name"\n"ada1","Countess","7","Ada L"\n"bob2","","",""\n'
    roster = read_roster(write(tmp_path, text))
    assert [student.student_id for student in roster.students] == ["ada1", "bob2"]
    countess = roster.find("countess")
    assert countess is not None
    assert countess.student_id == "ada1"


@pytest.mark.parametrize("ids", ["student_id", "sid", "ID number", "username", "email", "SIS User ID"])
def test_a_student_with_one_name_is_in_the_roster_whichever_column_is_first(tmp_path: Path, ids: str) -> None:
    text = f"last_name,first_name,{ids}\nLovelace,Ada,s1@x.org\n,Sukarno,s2@x.org\n,,s3@x.org\n"
    assert [student.student_id for student in read_roster(write(tmp_path, text)).students] == [
        "s1@x.org",
        "s2@x.org",
        "s3@x.org",
    ]


def test_a_student_without_an_id_is_refused_even_with_an_empty_first_cell(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 3: the student's id is empty"):
        read_roster(write(tmp_path, "last_name,first_name,student_id\nLovelace,Ada,s1\n,Sukarno,\n"))


def test_a_student_of_two_sections_is_one_student_in_both_groups(tmp_path: Path) -> None:
    text = "name,student_id,group\nAda L,s1,red\nBob M,s2,blue\nAda L,s1,blue\n"
    roster = read_roster(write(tmp_path, text))
    assert [student.student_id for student in roster.students] == ["s1", "s2"]
    assert [student.student_id for student in roster.group("red")] == ["s1"]
    assert [student.student_id for student in roster.group("blue")] == ["s2", "s1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"roster.csv is empty: its first line must name its columns"),
        ("name,email\nA,b\n", r"roster.csv, line 1: the column student_id is missing in 'name', 'email'"),
        ("student_id\nada\nbob\nada\n", r"roster.csv, line 4: student_id 'ada' is on line 2 already"),
        ("student_id\ne\u0301\n\u00e9\n", r"line 3: student_id 'é' is on line 2 already"),
        ("student_id,github_username\na,X\nb,x\n", r"line 3: github_username 'x' is on line 2 already"),
        ("student_id,email\n ,a@x\n", r"roster.csv, line 2: the student's id is empty"),
        (b"student_id,name\na,Ana\nb,Jos\xe9\n", r"roster.csv, line 3: byte 0xe9 is no UTF-8: save the roster as CSV"),
        ("student_id,email\na,b,c\n", r"line 2: more values than columns, from 'c' on: quote such a value"),
        ('student_id\n"a\n', r"not valid CSV"),
        ("student_id\na\0b\n", r"line 2: not valid CSV"),
        ("student_id,email,E-mail\na,b,c\n", r"line 1: the column 'email' occurs twice"),
        ("student_id\n", r"roster.csv has a header but no students"),
    ],
)
def test_the_error_for_a_bad_roster_names_file_line_and_value(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_roster(write(tmp_path, text))


def test_a_missing_roster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"roster .*none.csv cannot be read \(No such file or directory\)"):
        read_roster(tmp_path / "none.csv")


def test_a_name_finds_its_student_and_an_ambiguous_name_finds_none(tmp_path: Path) -> None:
    rows = ["id,first_name,last_name,email", "a1,Ada,Lovelace,ada@x.org", "A1,Bo,Lee,bo@x.org", "c3,Bo,Lee,ada@y.org"]
    roster = read_roster(write(tmp_path, "\n".join(rows)))

    def id_of(name: str) -> str | None:
        student = roster.find(name)
        return student.student_id if student else None

    assert [id_of(name) for name in ("a1", "A1", "C3", "ADA@X.ORG")] == ["a1", "A1", "c3", "a1"]
    assert {id_of(name) for name in ("Ada Lovelace", "lovelace, ada", "lovelaceada", "Ａda  lovelace")} == {"a1"}
    assert {id_of(name) for name in ("Bo Lee", "ada", "", "nobody")} == {None}
    assert id_of("bo") == "A1"
    assert Roster(()).find("") is None


@pytest.mark.parametrize(
    ("policy", "hours", "penalty"),
    [
        (LatePolicy(), 1000, 0),
        (LatePolicy(10), 0, 0),
        (LatePolicy(10), 0.001, 5),
        (LatePolicy(10), 24, 5),
        (LatePolicy(10), 24.001, 10),
        (LatePolicy(2.5), 25, 2.5),
        (LatePolicy(33), 25, 33),
        (LatePolicy(33), 24 * 5, 50),
        (LatePolicy(10, max_days=3), 72, 15),
        (LatePolicy(10, max_days=3), 72.1, 50),
        (LatePolicy(10, grace_hours=2), 2, 0),
        (LatePolicy(10, grace_hours=2), 26, 5),
        (LatePolicy(10, grace_hours=2), 26.1, 10),
        (LatePolicy(10, grace_hours=0.5), 0.4, 0),
        (LatePolicy(10, max_days=1, grace_hours=1.5), 25.6, 50),
        (LatePolicy(max_days=0), 0.001, 50),
        (LatePolicy(max_days=0, grace_hours=2), 2, 0),
        (LatePolicy(max_days=0, grace_hours=2), 2.1, 50),
        (LatePolicy(max_days=2), 47, 0),
    ],
)
def test_the_late_penalty_for_50_points(policy: LatePolicy, hours: float, penalty: float) -> None:
    assert late_penalty(policy, 50, hours * HOUR) == penalty


def test_times_have_a_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    noon = parse_time("2026-12-01 12:00+01:00")
    for same in ("2026-12-01T11:00Z", "2026-12-01 11:00:00.000000 UTC", "2026-12-01 12:00 Europe/Berlin"):
        assert parse_time(same) == noon
    assert parse_time("2026-12-01 12:00").utcoffset() is not None
    assert seconds_late("2026-12-01T11:30:00+00:00", noon) == HOUR / 2
    assert seconds_late((noon - timedelta(days=1)).isoformat(), noon) == seconds_late("", noon) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2026-12-01",
        "2026-13-01 10:00",
        "2026-12-01 10:00 Mars/Base",
        "٢026-12-01 10:00",
        "2026-12-01 10:00 ../../etc/passwd",
    ],
)
def test_the_error_for_a_bad_time_shows_the_right_form(text: str) -> None:
    with pytest.raises(UserError, match=re.escape('is no date with a time: write it as "2026-12-01 23:59+01:00"')):
        parse_time(text)


UNUSUAL_IDS = [
    "",
    ".",
    "..",
    "CON",
    "con.txt",
    "-rf",
    "a/b",
    "a\\b",
    "a\nb",
    "é",
    "e\u0301",
    "\u202eevil",
    "x" * 300,
    "\udcff",
    "Ada",
    "ADA",
]


def test_safe_names_are_safe_and_distinct() -> None:
    letters = "abAB01._-@ /\\\n\x00é\u0301\u202e\udc80😀"
    rng = random.Random(0)
    ids = {"".join(rng.choices(letters, k=rng.randrange(12))) for _ in range(5000)} | set(UNUSUAL_IDS)
    ids |= {safe_name(student_id) for student_id in ids}  # an id may equal another student's safe name
    names = {student_id: safe_name(student_id) for student_id in ids}
    assert all(re.fullmatch(r"[A-Za-z0-9_@][A-Za-z0-9._@-]{0,59}", name) and name[-1] != "." for name in names.values())
    assert len({name.lower() for name in names.values()}) == len(ids)
    assert not {"con", "con.txt", "nul"} & {name.lower() for name in names.values()}
    unchanged = ["ada", "ada.l-2@x.org", "s1234567"]
    assert [safe_name(student_id) for student_id in unchanged] == unchanged


def test_printable_text_stays_on_one_line() -> None:
    assert printable("a\nb\x1b[2J\u202e\udcff\u2028é") == r"a\nb\x1b[2J\u202e\udcff\u2028é"
    assert len(printable("\0" * 300)) < 90
