"""Downloads and rosters of course systems: each student gets the right file, and lateness only where it is known.

The forms are those of public reports by users: Canvas, Moodle, Blackboard, Brightspace, ILIAS, Teams and Sakai.
"""

import codecs
import csv
import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rankzero.curriculum import LatePolicy, find_lab
from rankzero.errors import UserError
from rankzero.grading.batch import with_lateness
from rankzero.grading.grade import Grade, Student, Submission
from rankzero.grading.intake.collect import collect
from rankzero.grading.intake.read_roster import read_roster
from rankzero.grading.intake.roster import Roster
from rankzero.grading.intake.timestamps import parse_time
from rankzero.grading.report.course_csv import write_course_gradebooks

LAB = find_lab("02")
DOWNLOAD = (2026, 12, 4, 10, 0, 0)  # the time that all members of an archive carry
DUE = parse_time("2026-12-01 23:59")
POLICY = LatePolicy(percent_per_day=10)
ROSTER = """student_id,last_name,first_name,email
s1,Keller,Mina,mina@x.org
s2,Osei,Kwame,kwame@x.org
s3,Novak,Petr,p@x.org
"""


def archive(path: Path, names: Iterable[str]) -> Path:
    """Writes a class's archive in which each file contains its own name."""
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(zipfile.ZipInfo(name, DOWNLOAD), name)
    return path


def roster_of(tmp_path: Path, text: str | bytes) -> Roster:
    file = tmp_path / "roster.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_roster(file)


def handed_in(source: Path, roster: Roster | None) -> dict[str, Submission]:
    submissions = collect(source, [LAB], source.parent / "out", roster)
    return {submission.student.student_id: submission for submission in submissions}


def files(submissions: Mapping[str, Submission]) -> dict[str, str]:
    return {name: found.file.read_text() if found.file else "" for name, found in submissions.items()}


def graded(submission: Submission, points: int = 50) -> Grade:
    """Returns a grade of the submission, with its lateness at DUE."""
    grade = Grade(submission, (7,), "0.1.0", "sandbox", "2026-12-05T10:00:00+00:00", 0.5, points)
    return with_lateness([grade], DUE, POLICY)[0]


# --------------------------------------------------------------------------------------------------- times of hand-in


def test_canvas_says_late_by_a_word_and_its_times_are_those_of_the_download(tmp_path: Path) -> None:
    names = ["kellermina_40211_9001_exercises.py", "oseikwame_LATE_40212_9002_exercises.py"]
    names.append("novakpetr_late_40213_9003_exercises-1.py")
    submissions = handed_in(archive(tmp_path / "submissions.zip", names), roster_of(tmp_path, ROSTER))
    assert files(submissions) == dict(zip(("s1", "s2", "s3"), names, strict=True))
    grades = {name: graded(submission) for name, submission in submissions.items()}
    assert {(grade.late_days, grade.late_penalty, grade.submission.submitted_at) for grade in grades.values()} == {
        (0, 0, "")
    }
    assert grades["s1"].submission.notes == ()
    assert grades["s2"].submission.notes == (
        f"Canvas marks {names[1]} as late and gives no time. No points are taken: to take some, write a change into "
        "adjustments.csv.",
    )
    assert "Canvas marks" in grades["s3"].submission.notes[0]


@pytest.mark.parametrize("form", ["archive", "unpacked"])
def test_one_time_of_a_whole_download_is_no_time_of_hand_in(tmp_path: Path, form: str) -> None:
    names = [f"{name}_{n}_assignsubmission_file/exercises.py" for n, name in enumerate(("Mina Keller", "Kwame Osei"))]
    source = archive(tmp_path / "names.zip", names)
    if form == "unpacked":
        with zipfile.ZipFile(source) as file:
            file.extractall(source := tmp_path / "names")
    submissions = handed_in(source, roster_of(tmp_path, ROSTER))
    grades = [graded(submissions[name]) for name in ("s1", "s2")]
    for grade in grades:
        assert (grade.late_days, grade.submission.submitted_at) == (0, "")
        (note,) = grade.submission.notes
        assert note.startswith("The time of hand-in is unknown, because all files of names have one time, 20")
    (unaware,) = with_lateness(grades[:1], None, POLICY)
    assert unaware.submission.notes == (), "without a deadline, nobody needs the time"


def test_one_time_of_a_plain_folder_is_a_note_for_late_work_only(tmp_path: Path) -> None:
    """It may be right, as in a test, or that of a copy."""
    for name in ("s1", "s2"):
        (tmp_path / "subs" / name).mkdir(parents=True)
        (tmp_path / "subs" / name / "exercises.py").write_text(name)
    submission = handed_in(tmp_path / "subs", None)["s1"]
    on_time, late = (
        replace(submission, submitted_at=time) for time in ("2026-11-30T10:00:00Z", "2026-12-03T10:00:00Z")
    )
    assert graded(on_time).submission.notes == ()
    (note,) = graded(late).submission.notes
    assert graded(late).late_days == 2
    assert note.startswith("The time of hand-in may be that of a copy, because all files of subs have one time, ")


# ------------------------------------------------------------------------------------------------------------- layouts

BRIGHTSPACE = (
    "397063-2557369 - Mina Keller - Nov 30, 2026 926 PM",
    "397063-2557369 - Kwame Osei - 2 December, 2026 0800",
)
LAYOUTS = {
    "Moodle": {
        "Mina Keller_1011_assignsubmission_file/exercises.py": "s1",
        "Mina Keller_1011_assignsubmission_onlinetext/onlinetext.html": "",
        "Osei Kwame_1012_assignsubmission_file_/exercises.py": "s2",
    },
    "Blackboard": {
        "Lab_2_The loop_s1_attempt_2026-11-30-21-26-00_exercises.py": "s1",
        "Lab_2_The loop_s1_attempt_2026-11-30-21-26-00.txt": "",
        "Lab_2_The loop_s2_attempt_2026-12-01-08-00-00_exercises.py": "",
        "Lab_2_The loop_s2_attempt_2026-12-02-08-00-00_exercises.py": "s2",
    },
    "Brightspace": {
        f"{BRIGHTSPACE[0]}/exercises.py": "s1",
        f"{BRIGHTSPACE[1]}/exercises.py": "s2",
        "index.html": "",
    },
    "Brightspace, files": {f"{BRIGHTSPACE[0]} - exercises.py": "s1", f"{BRIGHTSPACE[1]} - exercises.py": "s2"},
    "ILIAS": {
        "The loop/Abgaben/Keller_Mina_s1_301/exercises.py": "s1",
        "The loop/Abgaben/Osei_Kwame_kosei_302/Verspaetete Abgabe - exercises.py": "s2",
    },
    "ILIAS, teams": {
        "The loop/Submissions/Team 7/Keller_Mina_s1_301/exercises.py": "s1",
        "The loop/Submissions/Team 8/Osei_Kwame_kosei_302/exercises.py": "s2",
    },
    "Teams": {
        "Submitted files/Mina Keller/Lab 2/Version 1/exercises.py": "",
        "Submitted files/Mina Keller/Lab 2/Version 2/exercises.py": "s1",
        "Submitted files/Kwame Osei/Lab 2/Version 10/exercises.py": "s2",
        "Submitted files/Kwame Osei/Lab 2/Version 9/exercises.py": "",
        "Working files/Kwame Osei/Lab 2/exercises.py": "",
    },
    "Sakai": {
        "The loop/Keller, Mina(s1)/Submission attachment(s)/exercises.py": "s1",
        "The loop/Keller, Mina(s1)/Feedback Attachment(s)/exercises.py": "",
        "The loop/Osei, Kwame(kosei)/Submission attachment(s)/exercises.py": "s2",
        "The loop/grades.csv": "",
    },
}  # fmt: skip


@pytest.mark.parametrize("system", LAYOUTS)
def test_a_course_systems_download_is_read(tmp_path: Path, system: str) -> None:
    source = archive(tmp_path / "download.zip", LAYOUTS[system])
    submissions = handed_in(source, roster_of(tmp_path, ROSTER.replace("kwame@", "kosei@")))
    assert files(submissions) == {
        **{student: name for name, student in LAYOUTS[system].items() if student}, "s3": "",
    }  # fmt: skip
    assert not submissions["s3"].doubtful


def test_one_students_download_is_read_too(tmp_path: Path) -> None:
    for number, layout in enumerate(LAYOUTS.values()):
        own = [name for name, student in layout.items() if student == "s1"]
        (tmp_path / f"{number}").mkdir()
        submissions = handed_in(archive(tmp_path / f"{number}" / "download.zip", own), roster_of(tmp_path, ROSTER))
        assert files(submissions)["s1"] == own[0]


@pytest.mark.parametrize("system", ["Blackboard", "Brightspace", "Brightspace, files", "Sakai"])
def test_the_time_that_a_course_system_states_counts(tmp_path: Path, system: str) -> None:
    stamps = {"s1": "20261130212600123", "kosei": "20261202080000456"}
    source = archive(tmp_path / "download.zip", LAYOUTS[system])
    with zipfile.ZipFile(source, "a") as file:
        for name, (user, stamp) in zip(("Keller, Mina", "Osei, Kwame"), stamps.items(), strict=True):
            if system == "Sakai":
                file.writestr(zipfile.ZipInfo(f"The loop/{name}({user})/timestamp.txt", DOWNLOAD), stamp)
    submissions = handed_in(source, roster_of(tmp_path, ROSTER.replace("kwame@", "kosei@")))
    times = [parse_time(submissions[name].submitted_at) for name in ("s1", "s2")]
    assert times == [parse_time("2026-11-30 21:26"), parse_time("2026-12-02 08:00")], "in this machine's time zone"
    assert [graded(submissions[name]).late_days for name in ("s1", "s2")] == [0, 1]
    assert {graded(submissions[name]).submission.notes for name in ("s1",)} == {()}


def test_a_file_name_cannot_imitate_another_systems_name(tmp_path: Path) -> None:
    own = "oseikwame_40212_9002_x_s1_attempt_2026-11-30-21-26-00_exercises.py"
    names = ["novakpetr_40213_9003_exercises.py", own, "oseikwame_40212_9004_Keller, Mina(s1)"]
    submissions = handed_in(archive(tmp_path / "submissions.zip", names), roster_of(tmp_path, ROSTER))
    assert submissions["s1"].file is None


NAMED = {
    "Moodle drops punctuation": ("Sinead OConnor_12_assignsubmission_file_/exercises.py", "3,O'Connor,Sinéad"),
    "Moodle puts groups first": ("CS101-01-Eva van Dijk_12_assignsubmission_file_/exercises.py", "3,van Dijk,Eva"),
    "Canvas keeps underscores": ("van_dijkeva_LATE_1001_5001_exercises.py", "3,van_Dijk,Eva"),
    "Canvas keeps vowel signs": ("शर्मारवि_1001_5001_exercises.py", "3,शर्मा,रवि"),
    "a browser's copy, handed in again to Canvas": ("leeeva_1001_5001_exercises (1)-1.py", "3,Lee,Eva"),
    "a dot above": ("demiri\u0307lker_1001_5001_exercises.py", "3,Demir,İlker"),
    "ILIAS, a login with an underscore": ("Abgaben/Garcia_Jose_j_garcia_301/exercises.py", "j_garcia,Garcia,José"),
    "Brightspace in French": ("13-99 - Eva Lee - 30 nov., 2026 18h22/exercises.py", "3,Lee,Eva"),
    "Sakai, a name in parentheses": ("Lee, Eva (Evie)(3)/Submission attachment(s)/exercises.py", "3,Lee,Eva"),
    "a file from a cloud folder": ("Eva Lee - exercises (1).py", "3,Lee,Eva"),
    "underscores": ("lee_eva/exercises.py", "3,Lee,Eva"),
    "accents dropped": ("Jose Garcia/exercises.py", "3,García,José"),
    "a copy in German": ("3/exercises - Kopie (2).py", "3,Lee,Eva"),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_name_is_found_however_a_tool_writes_it(tmp_path: Path, case: str) -> None:
    name, row = NAMED[case]
    roster = roster_of(tmp_path, f"student_id,last_name,first_name\n{row}\nz9,Zimmer,Zed\n")
    submissions = handed_in(archive(tmp_path / "class.zip", [name]), roster)
    assert files(submissions) == {row.split(",")[0]: name, "z9": ""}


ALIKE = [
    "Ada Marie Lovelace/exercises.py",
    "Ada Lovelace (Student)/exercises.py",
    "HW2_0042.py",
    "lovelaceadam_5_6_exercises.py",
]


@pytest.mark.parametrize("name", ALIKE)
def test_a_name_like_a_students_makes_nobody_a_zero(tmp_path: Path, name: str) -> None:
    roster = roster_of(tmp_path, "student_id,last_name,first_name\n0042,Lovelace,Ada\nz9,Zimmer,Zed\n")
    submissions = handed_in(archive(tmp_path / "class.zip", [name]), roster)
    assert submissions["0042"].doubtful
    assert not submissions["z9"].doubtful
    assert "may be the work of 0042: unpack the archive, rename it to this id" in submissions["0042"].notes[0]


def test_names_that_match_nobody_make_nobody_a_zero(tmp_path: Path) -> None:
    source = archive(tmp_path / "class.zip", [f"{name}/exercises.py" for name in ("u1", "u2", "s1")])
    submissions = handed_in(source, roster_of(tmp_path, ROSTER))
    assert submissions["s2"].doubtful
    assert "most names match nobody in the roster, such as u1." in submissions["s2"].notes[0]


def test_folders_of_sections_are_a_note(tmp_path: Path) -> None:
    names = ["Section A/s1/exercises.py", "Section B/s2/exercises.py"]
    text = "holds folders of your students, so nothing in it is graded: move these folders out of it"
    with pytest.raises(UserError, match=f"Section A {text}"):
        handed_in(archive(tmp_path / "class.zip", names), roster_of(tmp_path, ROSTER + "s4,Lee,Eva,\n"))
    roster = roster_of(tmp_path, "student_id,group\ns1,Section A\ns2,Section A\ns3,Section B\n")
    submissions = handed_in(archive(tmp_path / "class.zip", [*names[:1], "s3/exercises.py"]), roster)
    assert submissions["s1"].notes == (f"Section A {text}, and run the same command with --resume.",)
    assert (submissions["s1"].doubtful, submissions["s2"].file) == (True, None)


def test_a_text_entry_of_canvas_is_something_handed_in(tmp_path: Path) -> None:
    names = ["kellermina_1001_text.html", "oseikwame_1002_5002_exercises.py"]
    submissions = handed_in(archive(tmp_path / "submissions.zip", names), roster_of(tmp_path, ROSTER))
    assert submissions["s1"].doubtful
    assert "Ask the student for exercises.py." in submissions["s1"].notes[0]


def test_a_file_that_was_renamed_in_a_download_is_not_late(tmp_path: Path) -> None:
    for other in ("kellermina_1001_5001_exercises.py", f"{BRIGHTSPACE[0]} - exercises.py"):
        source = archive(tmp_path / f"{len(other)}.zip", [other, "s2.py"])
        grade = graded(handed_in(source, roster_of(tmp_path, ROSTER))["s2"])
        assert (grade.late_days, grade.submission.submitted_at) == (0, "")
        assert "The time of hand-in is unknown, because the name of s2.py has none" in grade.submission.notes[0]


def test_one_name_like_a_systems_takes_nobodys_time(tmp_path: Path) -> None:
    for name in ("s1", "s2", "s3"):
        (tmp_path / "subs" / name).mkdir(parents=True)
        (tmp_path / "subs" / name / "exercises.py").write_text(name)
    (tmp_path / "subs" / "x_1_2_exercises.py").write_text("a student's own name for a file")
    submissions = handed_in(tmp_path / "subs", roster_of(tmp_path, ROSTER))
    assert all(submissions[name].submitted_at for name in ("s1", "s2", "s3"))


def test_a_systems_number_decides_among_people_of_one_name_only(tmp_path: Path) -> None:
    names = ["smithjoan_456_1_exercises.py", "lovelaceada_456_2_exercises.py", "lovelaceada_789_3_exercises.py"]
    text = "student_id,last_name,first_name\n456,Builder,Bob\n"
    assert handed_in(archive(tmp_path / "a.zip", names), roster_of(tmp_path, text))["456"].file is None
    numbers = roster_of(tmp_path, "student_id\n456\n")
    assert files(handed_in(archive(tmp_path / "b.zip", names[:1]), numbers)) == {"456": names[0]}


# ------------------------------------------------------------------------------------------- teams and blind marking


def test_a_teams_work_counts_for_each_member(tmp_path: Path) -> None:
    names = ["Team Blue_17_assignsubmission_file/exercises.py", "Default group_assignsubmission_file/exercises.py"]
    source = archive(tmp_path / "teams.zip", names)
    text = 'student_id,group\ns1,team blue\ns2,"Tuesday, Team Blue"\ns3,\n'
    submissions = handed_in(source, roster_of(tmp_path, text))
    assert files(submissions) == {"s1": names[0], "s2": names[0], "s3": names[1]}
    assert submissions["s1"].notes == ("Handed in together with s2.",)


def test_an_unknown_team_gives_none_of_its_members_a_zero(tmp_path: Path) -> None:
    source = archive(tmp_path / "teams.zip", ["Team Blue_17_assignsubmission_file/exercises.py"])
    submissions = handed_in(source, roster_of(tmp_path, ROSTER))
    assert "give the roster a column group with the teams' names" in submissions["Team Blue"].notes[0]
    for name in ("s1", "s2", "s3"):
        assert submissions[name].doubtful
        assert "unless this student is in Team Blue_17_" in submissions[name].notes[0]


CANVAS_CLASS = 'Student,ID,SIS User ID\n"Keller, Mina",40211,s1\n"Osei, Kwame",40212,s2\n"Novak, Petr",40213,s3\n'


def test_canvas_names_a_groups_file_after_the_group_and_numbers_it_after_one_member(tmp_path: Path) -> None:
    names = ["teamblue_40211_9001_exercises.py", "novakpetr_40213_9002_exercises.py"]
    source = archive(tmp_path / "submissions.zip", names)
    groups = CANVAS_CLASS.replace("ID\n", "ID,group\n").replace(",s1", ",s1,Team Blue").replace(",s2", ",s2,Team Blue")
    submissions = handed_in(source, roster_of(tmp_path, f"{groups.rstrip()},\n"))
    assert files(submissions) == {"s1": names[0], "s2": names[0], "s3": names[1]}
    assert submissions["s1"].notes == ("Handed in together with s2.",)
    submissions = handed_in(source, roster_of(tmp_path, CANVAS_CLASS))
    assert files(submissions) == {"s1": names[0], "s2": "", "s3": names[1]}
    assert submissions["s2"].doubtful, "may be in the group"
    assert "unless this student is in teamblue_40211_9001_exercises.py" in submissions["s2"].notes[0]
    assert submissions["s1"].notes == (
        "teamblue_40211_9001_exercises.py has the number of s1 and another name: if a group handed it in, give the "
        "roster a column group with the groups' names.",
    )
    assert submissions["s3"].notes == ()


BLIND = {
    "Participant_5001_assignsubmission_file/exercises.py": "Participant 5001",
    "Participant_5002_assignsubmission_file/exercises.py": "Participant 5002",
    "anon_4fG7x_9001_exercises.py": "anon_4fG7x",
    "LATE_anon_12345_9002_exercises.py": "anon_12345",
    "Team 7-Participant_1_assignsubmission_file/exercises.py": "Participant 1",
    "Teilnehmerin_2_assignsubmission_file/exercises.py": "Teilnehmerin 2",
}


@pytest.mark.parametrize("number", [0, 2, 4])
def test_blind_submissions_are_graded_by_number(tmp_path: Path, number: int) -> None:
    names = list(BLIND)[number : number + 2]
    submissions = handed_in(archive(tmp_path / "blind.zip", names), roster_of(tmp_path, ROSTER))
    assert files(submissions) == {BLIND[name]: name for name in names}, "and no row of a student who may be one of them"
    for name in names:
        assert f"is anonymous: it is graded as {BLIND[name]}." in " ".join(submissions[BLIND[name]].notes)


def test_moodles_grading_worksheet_says_who_a_number_is(tmp_path: Path) -> None:
    text = "Identifier,Full name,ID number,Email address\nParticipant 5002,Mina Keller,s1,m@x.org\n"
    submissions = handed_in(archive(tmp_path / "blind.zip", list(BLIND)[:2]), roster_of(tmp_path, text))
    assert files(submissions)["s1"] == list(BLIND)[1]
    blind = roster_of(tmp_path, "Identifier,Status,Grade\nParticipant 5001,Submitted,\n")
    assert [student.student_id for student in blind.students] == ["Participant 5001"]


# -------------------------------------------------------------------------------------------------------------- rosters

GRADEBOOK = """Student,ID,SIS User ID,SIS Login ID,Section,Lab 02 (881),Current Score
,,,,,Manual Posting,
    Points Possible,,,,,50,(read only)
"Keller, Mina",40211,s100231,mkeller,Lecture 1,,
"Osei, Kwame",40212,s100232,kosei,Lecture 1,,
"Novak, Petr",40213,,pnovak,Lecture 1,,
"Student, Test",40299,,f3c1d0aa,Lecture 1,,
"""
CANVAS = [
    Student("s100231", "Keller", "Mina", "", "mkeller", "40211"),
    Student("s100232", "Osei", "Kwame", "", "kosei", "40212"),
    Student("pnovak", "Novak", "Petr", "", "pnovak", "40213"),
]


def test_canvas_gradebook_is_a_roster_and_gets_its_ids_back(tmp_path: Path) -> None:
    roster = roster_of(tmp_path, GRADEBOOK)
    assert list(roster.students) == CANVAS
    grades = [graded(Submission(student, "02", None)) for student in roster.students]
    write_course_gradebooks(grades, tmp_path)
    with (tmp_path / "canvas.csv").open() as stream:
        rows = {row["ID"]: row for row in csv.DictReader(stream)}
    assert [rows[number]["SIS User ID"] for number in ("40211", "40212", "40213")] == ["s100231", "s100232", ""]
    assert set(read_roster(tmp_path / "canvas.csv").students) == set(CANVAS)
    assert {rows["40211"][column] for column in rows["40211"] if column.startswith("Lab")} == {""}


def test_canvas_csv_of_any_roster_is_a_roster_again(tmp_path: Path) -> None:
    text = ROSTER + "=1+1,Formula,Ann,ann@x.org\nnameless,,,\n"
    roster = roster_of(tmp_path, text)
    write_course_gradebooks([graded(Submission(student, "02", None)) for student in roster.students], tmp_path)
    again = read_roster(tmp_path / "canvas.csv")
    names = {(student.student_id, student.last_name, student.first_name, student.email) for student in again.students}
    assert names == {
        (student.student_id, student.last_name, student.first_name, student.email) for student in roster.students
    }


def test_canvas_number_tells_two_students_of_one_name_apart(tmp_path: Path) -> None:
    roster = roster_of(tmp_path, GRADEBOOK.replace("Osei, Kwame", "Keller, Mina"))
    names = ["kellermina_40212_9002_exercises.py", "kellermina_40211_9001_exercises.py"]
    submissions = handed_in(archive(tmp_path / "submissions.zip", names), roster)
    assert files(submissions) == {"s100231": names[1], "s100232": names[0], "pnovak": ""}


PLAIN = "student_id;last_name;email\ns1;Müller;m@x.org\n"
WRITTEN = {
    "Excel's first line": ("sep=;\r\n" + PLAIN.replace("\n", "\r\n")).encode(),
    "Excel's first line, with a mark": codecs.BOM_UTF8 + ('"sep=;"\n' + PLAIN).encode(),
    "UTF-16": codecs.BOM_UTF16_LE + PLAIN.replace(";", "\t").encode("utf-16-le"),
    "UTF-16, the other order": codecs.BOM_UTF16_BE + PLAIN.encode("utf-16-be"),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_spreadsheets_roster_is_read(tmp_path: Path, form: str) -> None:
    (student,) = roster_of(tmp_path, WRITTEN[form]).students
    assert (student.student_id, student.last_name, student.email) == ("s1", "Müller", "m@x.org")


EXPORTS = {
    "Moodle": ("First name,Last name,Email address,Groups\nMina,Keller,mina@x.org,Team Blue\n", "mina@x.org", ""),
    "Moodle, ids left empty": (
        "First name,Surname,ID number,Email address\nMina,Keller,,mina@x.org\n",
        "mina@x.org",
        "",
    ),
    "Moodle, in German": ("Vorname,Nachname,ID-Nummer,E-Mail-Adresse\nMina,Keller,s1,mina@x.org\n", "s1", ""),
    "Blackboard": (
        "Last Name,First Name,Username,Student ID,Availability\nKeller,Mina,mkeller,s1,Yes\n",
        "s1",
        "mkeller",
    ),
    "Brightspace": (
        "OrgDefinedId,Username,Last Name,First Name,Email\n#s1,#mkeller,Keller,Mina,m@x.org\n",
        "s1",
        "mkeller",
    ),
    "ILIAS": ("Login;Nachname;Vorname;Matrikelnummer\nmkeller;Keller;Mina;0042\n", "0042", "mkeller"),
    "Gradescope": ("First Name,Last Name,SID,Role\nMina,Keller,s1,Student\nIna,Prof,,Instructor\n", "s1", ""),
    "Canvas, names apart": ("LastName,FirstName,ID,SIS User ID\n    Points,,,\nKeller,Mina,7,s1\n", "s1", ""),
    "a title above": ("CS 101\nstudent_id,student name\n s1,Mina Keller\n", "s1", ""),
    "Classroom": ("Last Name,First Name,Email Address,Lab\nPoints,,,9\nKeller,Mina,m@x.org,\n", "m@x.org", ""),
    "texts": ('student_id,last_name,first_name\n"=""0042""",Kel\u200bler,Mina,\n', "0042", ""),
    "twice": ("student_id,last_name,first_name\ns1,Keller,Mina\ns1,Keller,Mina\n", "s1", ""),
    "Sakai": ("Display ID,ID,Last Name,First Name,grade\nmkeller,mkeller,Keller,Mina,\n", "mkeller", ""),
}


@pytest.mark.parametrize("system", EXPORTS)
def test_a_course_systems_list_of_participants_is_a_roster(tmp_path: Path, system: str) -> None:
    text, student_id, login = EXPORTS[system]
    (student,) = roster_of(tmp_path, text).students
    assert (student.student_id, student.last_name, student.first_name) == (student_id, "Keller", "Mina")
    assert student.login == login


@pytest.mark.parametrize("damaged", ["2.02612E+11", "2,02612E+11", "2E+11", "202612000111.0", "202,612,000,111"])
def test_ids_that_a_spreadsheet_has_changed_are_refused(tmp_path: Path, damaged: str) -> None:
    text = f'student_id,email\n"{damaged}",a@x.org\n'
    with pytest.raises(
        UserError, match=r"roster.csv, line 2: a spreadsheet has changed the id to .* export the roster"
    ):
        roster_of(tmp_path, text)


def test_an_id_without_its_zeros_is_named_and_not_matched(tmp_path: Path) -> None:
    (tmp_path / "subs" / "0042").mkdir(parents=True)
    (tmp_path / "subs" / "0042" / "exercises.py").write_text("mine")
    submissions = handed_in(tmp_path / "subs", roster_of(tmp_path, "student_id\n42\n43\n"))
    assert files(submissions) == {"42": "", "43": "", "0042": "mine"}
    assert submissions["42"].doubtful
    assert not submissions["43"].doubtful
    assert submissions["42"].notes == submissions["0042"].notes
    assert submissions["42"].notes == (
        "0042 may be the work of 42: the roster's id has lost its first zeros. Export the roster again, and do not "
        "save it in a spreadsheet.",
    )


# ------------------------------------------------------------------------------------------- names inside of archives


def raw_zip(name: bytes, extra: bytes = b"", flag: int = 0) -> bytes:
    """Returns an archive with one file of this name, byte for byte."""
    data = b"mine"
    head = struct.pack("<HHHHHIIIHH", 20, flag, 0, 0, 0x5D84, zlib.crc32(data), 4, 4, len(name), len(extra))
    local = b"PK\x03\x04" + head + name + extra + data
    entry = b"PK\x01\x02\x14\x00" + head + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name + extra
    return local + entry + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)


def unicode_path(name: bytes, utf8: str) -> bytes:
    field = struct.pack("<BI", 1, zlib.crc32(name)) + utf8.encode()
    return struct.pack("<HH", 0x7075, len(field)) + field


MÜLLER = "Zoë Müller/exercises.py"
PACKED = {
    "marked as UTF-8": raw_zip(MÜLLER.encode(), flag=0x800),
    "UTF-8 in an extra field": raw_zip(MÜLLER.encode("cp1252"), unicode_path(MÜLLER.encode("cp1252"), MÜLLER)),
    "UTF-8 without a mark, as on macOS": raw_zip(MÜLLER.encode()),
}


@pytest.mark.parametrize("tool", PACKED)
def test_names_in_archives_keep_their_letters(tmp_path: Path, tool: str) -> None:
    (tmp_path / "class.zip").write_bytes(PACKED[tool])
    roster = roster_of(tmp_path, "student_id,name\ns1,Zoë Müller\n")
    submission = handed_in(tmp_path / "class.zip", roster)["s1"]
    assert submission.file
    assert submission.notes == ()


def test_names_that_cannot_be_decoded_are_a_note(tmp_path: Path) -> None:
    stale = unicode_path(b"another name", MÜLLER)  # of a member that a tool has renamed
    (tmp_path / "class.zip").write_bytes(raw_zip(MÜLLER.encode("cp1252"), stale))
    (submission,) = handed_in(tmp_path / "class.zip", None).values()
    assert submission.file
    assert "are not marked as UTF-8 and may be misspelled" in submission.notes[0]


# ------------------------------------------------------------------------------------------------- doubtful submissions


def test_a_newer_stub_beside_an_older_solution_is_named(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr(zipfile.ZipInfo("exercises.py", (2026, 11, 3, 12, 0, 0)), "mine")
        packed.writestr(zipfile.ZipInfo("exercises (1).py", (2026, 11, 5, 12, 0, 0)), LAB.stubs.read_bytes())
    (tmp_path / "subs").mkdir()
    (tmp_path / "subs" / "s1.zip").write_bytes(file.getvalue())
    submission = handed_in(tmp_path / "subs", None)["s1"]
    assert files({"s1": submission}) == {"s1": "mine"}
    assert submission.notes == (
        "s1.zip/exercises (1).py is newer, but nothing is written in it: s1.zip/exercises.py is graded.",
    )


def test_a_doubtful_student_has_no_score_in_any_gradebook(tmp_path: Path) -> None:
    (tmp_path / "subs" / "s1").mkdir(parents=True)
    (tmp_path / "subs" / "s1" / "solution.pdf").write_text("?")
    (tmp_path / "subs" / "s2").mkdir()
    (tmp_path / "subs" / "s2" / "exercises.py").write_text("mine")
    submissions = handed_in(tmp_path / "subs", roster_of(tmp_path, ROSTER))
    assert [submissions[name].doubtful for name in ("s1", "s2", "s3")] == [True, False, False]
    assert [graded(submissions[name]).counts for name in ("s1", "s2", "s3")] == [False, True, True]
