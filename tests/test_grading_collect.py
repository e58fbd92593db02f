"""Intake of submissions: files are found in every layout and copied; unusual or large files are refused."""

import io
import os
import random
import socket
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import pytest

from rankzero.curriculum import find_lab
from rankzero.errors import UserError
from rankzero.grading.grade import Student, Submission
from rankzero.grading.intake import untrusted_files
from rankzero.grading.intake.collect import collect
from rankzero.grading.intake.roster import Roster

LAB_02 = find_lab("02")
STUB = LAB_02.stubs.read_bytes()
ADA = Student("ada1", "Lovelace", "Ada", "ada@x.org")
BOB = Student("bob2", "Byrne", "Bob", "bob@x.org")
ROSTER = Roster((ADA, BOB), {"countess": ADA, "bob-b": BOB})
MOODLE = "Ada Lovelace_12345_assignsubmission_file_"
METADATA = """---
submission_111:
  :submitters:
  - :name: Ada Lovelace
    :sid: ada1
    :email: ada@x.org
  - :name: Bob Byrne
    :sid: bob2
    :email: bob@x.org
  :created_at: 2026-11-20 17:05:58.404936000 Z
  :score: 0.0
submission_112:
  :submitters:
  - :name: Zed Zimmer
    :sid: '0042'
    :email: zed@x.org
  :created_at: 2026-11-20 18:00:00.000000000 Z
"""

Tree = Mapping[str, str | bytes]


def make(folder: Path, tree: Tree) -> Path:
    for name, text in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def zipped(tree: Tree) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in tree.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 20, 12, 0, 0)), text)
    return file.getvalue()


def tarred(tree: Tree, change: Callable[[tarfile.TarInfo], None] = lambda info: None) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in tree.items():
            data = text if isinstance(text, bytes) else text.encode()
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            change(info)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def grades(source: Path, *labs: str, roster: Roster | None = None) -> dict[tuple[str, str], Submission]:
    submissions = collect(source, [find_lab(lab) for lab in labs or ("02",)], source.parent / "out", roster)
    return {(submission.student.student_id, submission.lab): submission for submission in submissions}


def texts(submissions: Mapping[tuple[str, str], Submission]) -> dict[tuple[str, str], str | None]:
    return {key: submission.file.read_text() if submission.file else None for key, submission in submissions.items()}


def only(submissions: Mapping[tuple[str, str], Submission]) -> Submission:
    assert len(submissions) == 1
    return next(iter(submissions.values()))


# Layouts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tree",
    [
        {"ada1/exercises.py": "A", "bob2/exercises.py": "B"},
        {"ada1/lab-02/exercises.py": "A", "bob2/work/lab-02/exercises.py": "B"},
        {"ada1/Lab 2/Exercises.py": "A", "bob2/homework/exercises.py": "B"},
        {"ada1/code/lab-02-single-gpu-training/exercises.py": "A", "bob2/rank-zero-main/work/lab-02/exercises.py": "B"},
        {"ada1.py": "A", "bob2_exercises.py": "B"},
        {"ada1/lab-02.py": "A", "bob2.tar.gz": tarred({"lab02_exercises.py": "B"})},
        {"ada1.zip": zipped({"exercises.py": "A"}), "bob2.tar.gz": tarred({"lab-02/exercises.py": "B"})},
        {"ada1/mine.zip": zipped({"work/lab-02/exercises.py": "A"}), "bob2/exercises.py": "B"},
        {"lab-02/ada1/exercises.py": "A", "lab-02/bob2.zip": zipped({"exercises.py": "B"}), "lab-04/x/y.txt": ""},
        {"lab-02.zip": zipped({"ada1/exercises.py": "A", "bob2/exercises.py": "B"})},
        {"submitted/ada1/lab-02/exercises.py": "A", "submitted/bob2/lab-02/exercises.py": "B", "gradebook.db": "?"},
    ],
    ids=[
        "plain",
        "labs",
        "odd names",
        "clones",
        "files",
        "named files",
        "archives",
        "inner",
        "by lab",
        "lab archives",
        "nbgrader",
    ],
)
def test_a_layout_is_recognized(tmp_path: Path, tree: Tree) -> None:
    submissions = grades(make(tmp_path / "subs", tree))
    assert texts(submissions) == {("ada1", "02"): "A", ("bob2", "02"): "B"}
    assert all(not submission.notes and len(submission.sha256) == 64 for submission in submissions.values())
    assert submissions["ada1", "02"].file == tmp_path / "out" / "submissions" / "02" / "ada1" / "exercises.py"
    assert stat.S_IMODE((tmp_path / "out/submissions/02/ada1/exercises.py").lstat().st_mode) == 0o644


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("top", ["", "class/"])
def test_the_class_may_be_one_archive(tmp_path: Path, pack: Callable[[Tree], bytes], top: str) -> None:
    source = tmp_path / ("class.zip" if pack is zipped else "class.tar.gz")
    source.write_bytes(pack({f"{top}ada1/exercises.py": "A", f"{top}bob2/exercises.py": "B", f"{top}bob2/x.pdf": "?"}))
    assert texts(grades(source)) == {("ada1", "02"): "A", ("bob2", "02"): "B"}


def test_times_of_members_that_differ_are_times_of_hand_in(tmp_path: Path) -> None:
    moments = {"ada1": (2026, 11, 20, 12, 0, 0), "bob2": (2026, 11, 20, 12, 5, 0)}
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        for name, moment in moments.items():
            archive.writestr(zipfile.ZipInfo(f"{name}/exercises.py", moment), name)
    for (name, _), submission in grades(tmp_path / "class.zip").items():
        local = datetime(*moments[name])  # times in a zip archive have no time zone
        assert datetime.fromisoformat(submission.submitted_at) == local.astimezone()
        assert not submission.one_time


@pytest.mark.parametrize("archive", [False, True])
def test_a_download_from_moodle_is_recognized(tmp_path: Path, archive: bool) -> None:
    tree: Tree = {
        f"{MOODLE}/exercises.py": "A",
        "Group 1-Bob Byrne_77_assignsubmission_file_exercises.py": "B",
        "Bob Byrne_77_assignsubmission_onlinetext_": "",
        "Zoë Zed_9_assignsubmission_file_/exercises.py": "Z",
    }
    source = tmp_path / "subs.zip" if archive else make(tmp_path / "subs", tree)
    if archive:
        source.write_bytes(zipped(tree))
    submissions = grades(source, roster=ROSTER)
    assert texts(submissions) == {("ada1", "02"): "A", ("bob2", "02"): "B", ("Zoë Zed", "02"): "Z"}
    assert submissions["Zoë Zed", "02"].notes == ("Zoë Zed_9_assignsubmission_file_ is not in the roster.",)
    assert set(texts(grades(source))) >= {("Ada Lovelace", "02"), ("Zoë Zed", "02")}


def test_two_people_of_the_same_name_stay_separate(tmp_path: Path) -> None:
    tree = {f"{MOODLE}/exercises.py": "A", f"{MOODLE.replace('5', '6')}/exercises.py": "B"}
    submissions = grades(make(tmp_path / "subs", tree), roster=ROSTER)
    assert sorted(text for text in texts(submissions).values() if text) == ["A", "B"]
    assert submissions["ada1", "02"].file is None


@pytest.mark.parametrize("beginning", ["Bob Byrne_77_assignsubmission_file_", "byrnebob_77_88_"])
def test_a_file_name_cannot_imitate_another_students_submission(tmp_path: Path, beginning: str) -> None:
    """The course system writes the beginning of the name; the student chooses the end, which identifies no student."""
    named = f"{beginning}a-Ada Lovelace_12345_assignsubmission_file_exercises.py"
    other = f"{beginning}lovelaceada_1_99_exercises.py"
    for number, name in enumerate((named, other)):
        source = make(tmp_path / f"{number}/subs", {name: "B", f"{beginning}exercises.py": "C"})
        submissions = grades(source, roster=ROSTER)
        assert submissions["ada1", "02"].file is None


def test_a_download_from_canvas_is_recognized(tmp_path: Path) -> None:
    tree: Tree = {
        "lovelaceada_LATE_1234_5678_exercises.py": "older",
        "lovelaceada_1234_5999_exercises-1.py": "A",
        "byrnebob_77_88_work.zip": zipped({"lab-02/exercises.py": "B"}),
        "zedzoe_1_2_exercises.py": "Z",
        "notes.txt": "",
    }
    source = make(tmp_path / "subs", tree)
    os.utime(source / "lovelaceada_LATE_1234_5678_exercises.py", (2e9, 2e9))
    submissions = grades(source, roster=ROSTER)
    assert texts(submissions) == {("ada1", "02"): "A", ("bob2", "02"): "B", ("zedzoe", "02"): "Z"}
    assert submissions["ada1", "02"].notes == (
        "lovelaceada_LATE_1234_5678_exercises.py was handed in too and is not graded: "
        "lovelaceada_1234_5999_exercises-1.py is, which is newer.",
    )


@pytest.mark.parametrize("form", ["folder", "wrapped", "zip", "tar.gz"])
def test_an_export_from_gradescope_is_recognized(tmp_path: Path, form: str) -> None:
    top = "" if form == "folder" else "assignment_7_export/"
    files = {
        "submission_metadata.yml": METADATA,
        "submission_111/exercises.py": "A",
        "submission_112/exercises.py": "Z",
    }
    tree = {f"{top}{name}": text for name, text in files.items()}
    source = tmp_path / f"subs.{form}"
    if form in ("zip", "tar.gz"):
        source.write_bytes(zipped(tree) if form == "zip" else tarred(tree))
    else:
        make(source, tree)
    submissions = grades(source, roster=ROSTER)
    assert texts(submissions) == {("ada1", "02"): "A", ("bob2", "02"): "A", ("0042", "02"): "Z"}
    assert submissions["ada1", "02"].notes == ("Handed in together with bob2.",)
    assert submissions["ada1", "02"].submitted_at == "2026-11-20T17:05:58.404936+00:00"
    assert submissions["0042", "02"].student == Student("0042", "Zimmer", "Zed", "zed@x.org")


@pytest.mark.parametrize("text", ["a: [", "[" * 200_000, b"\xff\xfe\x00"])
def test_gradescope_metadata_that_is_not_yaml_is_refused(tmp_path: Path, text: str | bytes) -> None:
    source = make(tmp_path / "subs", {"submission_metadata.yml": text, "submission_1/exercises.py": "A"})
    with pytest.raises(UserError, match=r"submission_metadata.yml is not valid YAML.*: export the submissions"):
        grades(source)


@pytest.mark.parametrize("text", ["- 1", "", "&a [*a]", "!!python/object/apply:os.abort []", "submission_1: [1, {}]"])
def test_gradescope_metadata_of_another_form_is_ignored(tmp_path: Path, text: str) -> None:
    source = make(tmp_path / "subs", {"submission_metadata.yml": text, "submission_1/exercises.py": "A"})
    assert texts(grades(source)) == {("submission_1", "02"): "A"}


def test_a_group_with_contradictory_ids_matches_no_student_of_the_roster(tmp_path: Path) -> None:
    text = METADATA.replace("ada@x.org", "bob@x.org", 1)
    submissions = grades(
        make(tmp_path / "subs", {"submission_metadata.yml": text, "submission_111/exercises.py": "?"}), roster=ROSTER
    )
    assert texts(submissions) == {("ada1", "02"): None, ("bob2", "02"): "?", ("submission_111", "02"): "?"}


def test_repositories_of_github_classroom_are_recognized(tmp_path: Path) -> None:
    stub: Tree = {
        "code/lab-02-single-gpu-training/exercises.py": STUB,
        "solutions/lab-02-single-gpu-training/exercises.py": "!",
        "tests/lab-02-single-gpu-training/claims.py": "ours",
    }
    tree: dict[str, str | bytes] = {
        f"lab-02-{user}/{name}": text for user in ("Countess", "bob-b", "x-bob-b") for name, text in stub.items()
    }
    tree |= {f"lab-02-{user}/work/lab-02/exercises.py": user for user in ("Countess", "bob-b")}
    source = make(tmp_path / "subs", tree)
    submissions = grades(source, roster=ROSTER)
    assert texts(submissions) == {("ada1", "02"): "Countess", ("bob2", "02"): "bob-b", ("x-bob-b", "02"): STUB.decode()}
    assert submissions["ada1", "02"].notes == ()
    assert "is as it was given: nothing is written in it." in submissions["x-bob-b", "02"].notes[-1]
    assert ("bob-b", "02") in grades(source)


def test_repositories_with_another_assignment_title_are_recognized(tmp_path: Path) -> None:
    tree = {"hw-one-Countess/exercises.py": "A", "hw-one-bob-b/exercises.py": "B"}
    assert texts(grades(make(tmp_path / "subs", tree), roster=ROSTER)) == {("ada1", "02"): "A", ("bob2", "02"): "B"}


def test_a_user_name_is_not_taken_for_a_student_id(tmp_path: Path) -> None:
    """A GitHub user named ada1 is not the student ada1 if the roster lists user names."""
    submissions = grades(
        make(tmp_path / "subs", {"lab-02-ada1/exercises.py": "!", "lab-02-bob-b/exercises.py": "B"}), roster=ROSTER
    )
    assert texts(submissions) == {("ada1", "02"): None, ("bob2", "02"): "B", ("lab-02-ada1", "02"): "!"}


def test_submissions_of_several_labs_are_told_apart(tmp_path: Path) -> None:
    tree = {
        "ada1/work/lab-02/exercises.py": "A2",
        "ada1/work/lab-04/exercises.py": "A4",
        "bob2/exercises.py": "whose?",
        "lab-04-zed/exercises.py": "Z4",
    }
    submissions = grades(make(tmp_path / "subs", tree), "02", "04")
    assert {key: text for key, text in texts(submissions).items() if text} == {
        ("ada1", "02"): "A2", ("ada1", "04"): "A4", ("zed", "04"): "Z4",
    }  # fmt: skip
    assert submissions["bob2", "04"].notes == (
        "No exercises.py for lab 04 was found in bob2; there is bob2/exercises.py. "
        "With several labs, a file's place must name its lab, as lab-04/exercises.py does.",
    )
    assert submissions["zed", "02"].notes == (), "work for another lab needs no note"


def test_the_roster_gives_the_order_and_strangers_follow(tmp_path: Path) -> None:
    source = make(tmp_path / "subs", {"ADA1/exercises.py": "A", "zed/exercises.py": "Z", "bob2/main.py": "?"})
    submissions = collect(source, [LAB_02], tmp_path / "out", Roster((BOB, ADA, Student("carol"))))
    assert [(submission.student.student_id, bool(submission.file), submission.notes) for submission in submissions] == [
        (
            "bob2",
            False,
            (
                "No exercises.py for lab 02 was found in bob2; there is bob2/main.py. If bob2/main.py is the "
                "submission, rename it to exercises.py and run the same command with --resume.",
            ),
        ),
        ("ada1", True, ()),
        ("carol", False, ()),
        ("zed", True, ("zed is not in the roster.",)),
    ]


def test_the_best_of_several_files_is_graded_and_the_other_files_are_named(tmp_path: Path) -> None:
    tree = {"ada1/exercises.py": "top", "ada1/work/lab-02/exercises.py": "work", "ada1/lab-02/exercises (1).py": "copy"}
    submission = only(grades(make(tmp_path / "a", tree)))
    assert submission.file
    assert submission.file.read_text() == "work"
    assert [note.split(" was handed in too")[0] for note in submission.notes] == [
        "ada1/lab-02/exercises (1).py", "ada1/exercises.py",
    ]  # fmt: skip
    tree = {"ada1/old/exercises.py": "1", "ada1/new/exercises.py": "2", "bob2/exercises.py": "B"}
    submission = grades(make(tmp_path / "b", tree))["ada1", "02"]
    assert submission.file is None
    (note,) = submission.notes
    assert "Several files could be the submission for lab 02: ada1/new/exercises.py, ada1/old/exercises.py" in note


def test_the_newer_of_two_files_is_graded(tmp_path: Path) -> None:
    source = make(tmp_path / "subs", {"ada1/exercises.py": "older", "ada1.zip": zipped({"exercises.py": "newer"})})
    os.utime(source / "ada1/exercises.py", (1e9, 1e9))
    submission = only(grades(source))
    assert submission.file
    assert submission.file.read_text() == "newer"
    assert submission.notes == (
        "ada1/exercises.py was handed in too and is not graded: ada1.zip/exercises.py is, which is newer.",
    )


def test_timestamps_of_nbgrader_count_and_those_of_students_do_not(tmp_path: Path) -> None:
    tree = {f"submitted/{name}/lab-02/exercises.py": name for name in ("a", "b", "c", "d")}
    stamps = {
        "a": "2026-11-20 10:00:00.000000 UTC",
        "b": "2026-11-20 10:00:00 America/Los_Angeles",
        "c": "soon",
        "d": "",
    }
    tree |= {f"submitted/{name}/lab-02/timestamp.txt": text for name, text in stamps.items()}
    source = make(tmp_path / "subs", tree)
    for name in stamps:
        os.utime(source / f"submitted/{name}/lab-02/exercises.py", (1_700_000_000, 1_700_000_000))
    submissions = grades(source)
    assert submissions["a", "02"].submitted_at == "2026-11-20T10:00:00+00:00"
    assert submissions["b", "02"].submitted_at == "2026-11-20T10:00:00-08:00"
    assert submissions["c", "02"].submitted_at == "2023-11-14T22:13:20+00:00"
    assert "timestamp.txt is not understood" in submissions["c", "02"].notes[0]
    honest = {"f/lab-02/exercises.py": "f", "f/lab-02/timestamp.txt": "2026-11-20 10:00"}
    due = make(tmp_path / "b" / "submitted", honest)
    forged = {"exercises.py": "F", "timestamp.txt": "2026-11-01 10:00"}  # files that the student has packed or moved
    make(due, {"f/lab-02/a.zip": zipped(forged)} | {f"f/lab-02/lab-02/{name}": text for name, text in forged.items()})
    collected = collect(due.parent, [LAB_02], tmp_path / "o")
    (late,) = (submission for submission in collected if submission.student.student_id == "f")
    assert late.submitted_at == "2026-11-20T10:00:00+00:00"
    (source / "submitted").rename(source / "others")  # outside `submitted`, timestamp.txt is the student's claim
    os.utime(
        make(source, {"others/e.zip": zipped({"exercises.py": ""})}) / "others/e.zip", (1_700_000_000, 1_700_000_000)
    )
    submissions = grades(source / "others")
    assert {submissions[name, "02"].submitted_at for name in ("a", "b", "e")} == {"2023-11-14T22:13:20+00:00"}


def test_a_student_named_submitted_hides_no_other_student(tmp_path: Path) -> None:
    tree = {"ada1/exercises.py": "A", "submitted/bob2/exercises.py": "forged", "source/lab-02/exercises.py": "ours"}
    submissions = grades(make(tmp_path / "subs", tree))
    assert submissions["ada1", "02"].file is not None
    assert ("bob2", "02") not in submissions


def test_the_notebook_is_kept_as_a_record(tmp_path: Path) -> None:
    tree = {"ada1/exercises.py": "A", "ada1/lab-02-single-gpu-training.ipynb": '{"mine": 1}'}
    submission = only(grades(make(tmp_path / "subs", tree)))
    assert submission.file
    assert submission.notes == ("The notebook is not a notebook in Jupyter's format: its predictions are not counted.",)
    assert sorted(path.name for path in submission.file.parent.iterdir()) == ["exercises.py", "notebook.ipynb"]


# The file that counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "exercises (1).py",
        "exercises-2.py",
        "exercises_3.py",
        "exercises copy.py",
        "exercises copy 2.py",
        "exercises - Copy.py",
        "exercises - Copy (2).py",
        "exercises - Copy (2)-1.py",
        "exercises (1)-1.py",
        "exercises-1 (2).py",
        "exercises (copy).py",
        "Copy of exercises.py",
        "EXERCISES.PY",
    ],
)
def test_the_newest_file_is_graded_whatever_a_browser_called_it(tmp_path: Path, name: str) -> None:
    source = make(tmp_path / "subs", {"ada1/exercises.py": "older", f"ada1/{name}": "newer"})
    os.utime(source / "ada1/exercises.py", (1e9, 1e9))
    assert only(grades(source)).notes == (
        f"ada1/exercises.py was handed in too and is not graded: ada1/{name} is, which is newer.",
    )
    assert list(texts(grades(source)).values()) == ["newer"]
    os.utime(source / f"ada1/{name}", (9e8, 9e8))
    assert list(texts(grades(source)).values()) == ["older"]


def test_the_newest_file_of_an_archive_is_graded(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, day in (("exercises.py", 3), ("exercises (1).py", 5), ("exercises (2).py", 4)):
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, day, 12, 0, 0)), f"day {day}")
    source = make(tmp_path / "subs", {"ada1.zip": file.getvalue()})
    os.utime(source / "ada1.zip", (1_700_000_000, 1_700_000_000))
    submission = only(grades(source))
    assert submission.file
    assert submission.file.read_text() == "day 5"
    assert submission.submitted_at == "2023-11-14T22:13:20+00:00", "times inside an archive are the student's claim"


def test_an_archive_with_backslashes_or_hard_links_is_read(tmp_path: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text, link in (("backup/mine.txt", "linked", ""), ("exercises.py", "", "./backup/mine.txt")):
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(text), tarfile.LNKTYPE if link else tarfile.REGTYPE, link
            archive.addfile(info, io.BytesIO(text.encode()))
    tree = {"ada1.zip": zipped({"work\\lab-02\\exercises.py": "backslash"}), "bob2.tar.gz": file.getvalue()}
    submissions = grades(make(tmp_path / "subs", tree))
    assert texts(submissions) == {("ada1", "02"): "backslash", ("bob2", "02"): "linked"}
    assert {submission.notes for submission in submissions.values()} == {()}


def test_files_that_are_hard_linked_within_the_class_are_read(tmp_path: Path) -> None:
    """A tool that saves space on a disk replaces equal files by hard links."""
    source = make(tmp_path / "subs", {"ada1/exercises.py": "same", "bob2/note.txt": ""})
    os.link(source / "ada1/exercises.py", source / "bob2/exercises.py")
    assert texts(grades(source)) == {("ada1", "02"): "same", ("bob2", "02"): "same"}


@pytest.mark.parametrize("name", ["exercise.py", "exercises.py.txt", "excercises.py", "exercises", "solution.py"])
def test_a_wrong_name_is_a_note_that_says_what_to_do(tmp_path: Path, name: str) -> None:
    source = make(tmp_path / "subs", {f"ada1/{name}": "mine", "bob2/exercises.py": "B"})
    submission = grades(source)["ada1", "02"]
    assert submission.file is None
    assert submission.notes == (
        f"No exercises.py for lab 02 was found in ada1; there is ada1/{name}. If ada1/{name} is the submission, "
        "rename it to exercises.py and run the same command with --resume.",
    )
    alone = make(tmp_path / "b", {"ada1_exercises.py.txt": "mine", "bob2.py": "B"})
    assert "rename it to ada1.py" in grades(alone)["ada1", "02"].notes[0]


def test_a_notebook_alone_and_an_empty_folder_are_notes(tmp_path: Path) -> None:
    source = make(tmp_path / "subs", {"ada1/notebook.ipynb": "{}", "bob2/exercises.py": "B", "eve.zip": zipped({})})
    (source / "zoe" / "lab-02").mkdir(parents=True)
    notes = {student: submission.notes for (student, _), submission in grades(source).items() if submission.notes}
    assert notes == {
        "ada1": (
            "ada1 holds a notebook (ada1/notebook.ipynb) and no exercises.py for lab 02: "
            "notebooks get no points, so ask the student for exercises.py.",
        ),
        "eve": ("eve.zip is empty: ask the student for exercises.py.",),
        "zoe": ("zoe is empty: ask the student for exercises.py.",),
    }


def test_every_note_on_a_file_that_cannot_be_graded_has_a_way_out(tmp_path: Path) -> None:
    other_lab = find_lab("04").stubs.read_text()
    tree = {
        "ada/exercises.py": "",
        "bob/exercises.py": other_lab,
        "cem/exercises.docx": "a text",
        "dora/exercises.7z": "7z",
        "eve/lab-04/exercises.py": other_lab,
        "fay/a/exercises.py": "A",
        "fay/b/exercises.py": "B",
        "gus/exercises.pyc": "code",
    }
    source = make(tmp_path / "subs", tree)
    (source / "hal" / "exercises.py").mkdir(parents=True)
    notes = {student: submission.notes[-1] for (student, _), submission in grades(source).items()}
    ends = {
        "ada": "ada/exercises.py is empty: ask the student for exercises.py.",
        "bob": "bob/exercises.py has the functions of lab 04: ask for the file of lab 02.",
        "cem": "there is cem/exercises.docx. Ask the student for exercises.py.",
        "dora": "Unpack dora/exercises.7z in its folder and run the same command with --resume.",
        "eve": "The place of eve/lab-04/exercises.py names lab 04: grade that lab, or rename the folder.",
        "fay": "Leave only one and run the same command with --resume.",
        "gus": "Ask the student for exercises.py.",
        "hal": "can be read: ask the student for it and run the same command with --resume.",
    }
    assert {student: note for student, note in notes.items() if not note.endswith(ends[student])} == {}


@pytest.mark.parametrize("name", ["ada.7z", "ada.rar", "ada.tar.xz", "ada.tar.bz2", "ada.gz"])
def test_an_archive_of_another_kind_beside_the_folders_is_named(tmp_path: Path, name: str) -> None:
    source = make(tmp_path / "subs", {name: "packed", "bob/exercises.py": "B"})
    submissions = grades(source, roster=Roster((Student("ada"), Student("bob"))))
    submission = submissions["ada", "02"]
    assert submission.doubtful
    assert submission.notes[-1] == (
        f"No exercises.py for lab 02 was found in {name}. Unpack {name} into a folder named ada and run the same "
        "command with --resume."
    )


def test_two_students_of_one_name_are_named_in_notes(tmp_path: Path) -> None:
    roster = Roster((ADA, Student("ada2", "Lovelace", "Ada", "a2@x.org"), BOB))
    tree = {"Ada Lovelace/exercises.py": "A", "bob2/exercises.py": "B", f"{MOODLE}/exercises.py": "M"}
    submissions = grades(make(tmp_path / "subs", tree), roster=roster)
    advice = "may be the work of ada1 or ada2: rename it to one of these ids and run the same command with --resume."
    for student in ("ada1", "ada2", "Ada Lovelace"):
        notes = " ".join(submissions[student, "02"].notes)
        assert f"Ada Lovelace {advice}" in notes
        assert f"{MOODLE} {advice}" in notes
    assert submissions["bob2", "02"].notes == ()
    bob = make(tmp_path / "b", {"bob2/exercises.py": "B", "Ada Lovelace/exercises.py": "A", "ada1/exercises.py": "1"})
    assert grades(bob, roster=roster)["ada1", "02"].notes == (), "who has handed in is not meant"


def test_a_folder_of_a_lab_beside_folders_of_students_is_a_note(tmp_path: Path) -> None:
    tree = {"ada1/exercises.py": "A", "lab-02/bob2/exercises.py": "B", "lab-04-gradient-accumulation/x.py": ""}
    submissions = grades(make(tmp_path / "subs", tree), "02", roster=ROSTER)
    assert submissions["bob2", "02"].file is None
    for name in ("lab-02", "lab-04-gradient-accumulation"):
        assert submissions[name, "02"].file is None
        assert submissions[name, "02"].notes[-1] == (
            f"{name} is named like a lab and lies beside students' folders, so nothing in it is graded: move the "
            "students' folders out of it, or grade it by a run of its own."
        )


# Hostile submissions -------------------------------------------------------------------------------------------------


def good(tmp_path: Path) -> Path:
    return make(tmp_path / "subs", {"zoe/exercises.py": "good", "eve/note.txt": ""})


def refusal(source: Path) -> str:
    """Returns Eve's notes, after checking that no file of hers is collected and that Zoe's file is."""
    submissions = grades(source)
    assert texts(submissions)["zoe", "02"] == "good"
    assert texts(submissions)["eve", "02"] is None
    return " ".join(submissions["eve", "02"].notes)


def odd_file(kind: str, path: Path, secret: Path) -> None:
    if kind == "a symbolic link":
        path.symlink_to(secret)
    elif kind == "a hard link":
        os.link(secret, path)
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as server:
            here = os.open(path.parent, os.O_RDONLY)
            server.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a device":
        try:
            os.mknod(path, stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero, which can be read forever
        except PermissionError:
            pytest.skip("only root makes devices")


@pytest.mark.parametrize("kind", ["a symbolic link", "a hard link", "a FIFO", "a socket", "a folder", "a device"])
@pytest.mark.parametrize("place", ["eve/exercises.py", "eve/work/lab-02/exercises.py"])
def test_only_a_plain_file_is_read(tmp_path: Path, kind: str, place: str) -> None:
    source = good(tmp_path)
    secret = tmp_path / "secret.py"
    secret.write_text("the answers")
    (source / place).parent.mkdir(parents=True, exist_ok=True)
    odd_file(kind, source / place, secret)
    assert f"{place} is {kind}" in refusal(source)


@pytest.mark.parametrize("kind", ["a symbolic link", "a FIFO", "a socket"])
def test_a_special_file_in_place_of_a_folder_is_refused(tmp_path: Path, kind: str) -> None:
    source = make(tmp_path / "subs", {"zoe/exercises.py": "good"})
    make(tmp_path / "elsewhere", {"exercises.py": "the answers"})
    odd_file(kind, source / "eve", tmp_path / "elsewhere")
    assert f"eve is {kind}." in refusal(source)


def test_a_path_through_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    source = good(tmp_path)
    make(tmp_path / "elsewhere", {"lab-02/exercises.py": "the answers"})
    (source / "eve/work").symlink_to(tmp_path / "elsewhere")
    assert "eve/work is a symbolic link." in refusal(source)


def test_a_folder_replaced_by_a_link_after_listing_is_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "subs", {"eve/lab-02/exercises.py": "mine"})
    (entry,) = untrusted_files.list_folder(source, ("eve",))
    (source / "eve/lab-02").rename(source / "eve/was")
    make(tmp_path / "elsewhere", {"exercises.py": "the answers"})
    (source / "eve/lab-02").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(untrusted_files.RefusedError, match="is a symbolic link"):
        entry.read(100)


def test_a_file_that_changes_during_reading_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(good(tmp_path), {"eve/exercises.py": "1"})
    fstat = os.fstat

    def grow(number: int) -> os.stat_result:
        status = fstat(number)
        if status.st_size < 100 and stat.S_ISREG(status.st_mode):
            with (source / "eve/exercises.py").open("a") as file:
                file.write("1")
        return status

    monkeypatch.setattr(os, "fstat", grow)
    with pytest.raises(untrusted_files.RefusedError, match="changes while it is read"):
        untrusted_files.read_plain(source, ("eve", "exercises.py"), 1000)


def test_an_unreadable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(good(tmp_path), {"eve/lab-02/exercises.py": "1", "eve/secret/x.py": "2"})
    original = os.open

    def guarded(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path in ("secret", "lab-02"):
            raise PermissionError(13, "Permission denied")
        return original(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", guarded)
    assert "eve/lab-02 cannot be read (Permission denied)." in refusal(source)


def test_sizes_depths_and_counts_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = good(tmp_path)
    with (source / "eve/exercises.py").open("wb") as file:
        file.truncate(2**40)  # a sparse file of a terabyte
    assert "eve/exercises.py has 1,099,511,627,776 bytes; the limit is 1,048,576." in refusal(source)
    (source / "eve/exercises.py").unlink()
    make(source, {f"eve/{'d/' * 20}exercises.py": "deep"})
    assert "eve/d/d/d/d/d/d/d/d/d/d/d/d/d lies deeper than 12 folders." in refusal(source)
    monkeypatch.setattr(untrusted_files, "MAX_ENTRIES", 50)
    make(source, {f"eve/{number}.txt": "" for number in range(60)})
    assert "eve holds more than 50 files." in refusal(source)


def bomb(compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("exercises.py", b"#" * 1_000_000)
    return file.getvalue()


def with_wrong_size(data: bytes) -> bytes:
    """Returns the archive with a size of 10 in its table, whatever the true size."""
    place = data.rindex(b"PK\x01\x02")
    return data[: place + 24] + struct.pack("<I", 10) + data[place + 28 :]


def encrypted(data: bytes) -> bytes:
    place = data.rindex(b"PK\x01\x02")
    return data[: place + 8] + b"\x01\x00" + data[place + 10 :]


def link_in_zip() -> bytes:
    info = zipfile.ZipInfo("exercises.py")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return file.getvalue()


def of_type(kind: bytes) -> Callable[[tarfile.TarInfo], None]:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname, info.size = kind, "/etc/passwd", 0

    return change


ARCHIVES = {
    "traversal": ("zip", zipped({"../../exercises.py": "x"}), "leads out of its archive"),
    "traversal in tar": ("tar.gz", tarred({"lab-02/../../exercises.py": "x"}), "leads out of its archive"),
    "absolute": ("zip", zipped({"/exercises.py": "x"}), "leads out of its archive"),
    "drive": ("zip", zipped({"C:/exercises.py": "x"}), "leads out of its archive"),
    "backslashes": ("tar.gz", tarred({"lab-02\\..\\..\\exercises.py": "x"}), "leads out of its archive"),
    "encrypted": ("zip", encrypted(zipped({"exercises.py": "x"})), "is encrypted"),
    "corrupt": ("zip", zipped({"exercises.py": "x" * 999})[:60], "is no archive (BadZipFile)"),
    "corrupt bytes": ("zip", zipped({"exercises.py": "abc" * 99}).replace(b"PK\x03\x04", b"PK\x03\x05"), "is corrupt"),
    "empty": ("zip", b"", "is no archive"),
    "no gzip": ("tar.gz", b"hello" * 500, "is no archive"),
    "cut": ("tar.gz", tarred({"exercises.py": random.Random(0).randbytes(9000)})[:4000], "is no archive"),
    "bomb": ("zip", bomb(), "swells to more than 200 times its packed size"),
    "lying bomb": ("zip", with_wrong_size(bomb()), "is corrupt in its archive"),
    "bz2 bomb": ("zip", bomb(zipfile.ZIP_BZIP2), "is packed in another way than deflate"),
    "tar bomb": ("tar.gz", tarred({"x.bin": b"\0" * 3_000_000, "exercises.py": b"#" * 3_000_000}), "unpacks to more"),
    "link": ("zip", link_in_zip(), "is a symbolic link"),
    "link in tar": ("tar.gz", tarred({"exercises.py": ""}, of_type(tarfile.SYMTYPE)), "is a symbolic link"),
    "hard link in tar": ("tar.gz", tarred({"exercises.py": ""}, of_type(tarfile.LNKTYPE)), "that the archive lacks"),
    "FIFO in tar": ("tar.gz", tarred({"exercises.py": ""}, of_type(tarfile.FIFOTYPE)), "is no plain file"),
    "folder": ("zip", zipped({"exercises.py/": ""}), "is a folder"),
    "many": ("zip", zipped({f"{number}": "" for number in range(20_001)}), "holds more than 20,000 files"),
    "archive inside": ("zip", zipped({"inner.zip": zipped({"exercises.py": "x"})}), "No exercises.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_archive_is_a_note(tmp_path: Path, name: str) -> None:
    kind, data, note = ARCHIVES[name]
    source = make(tmp_path / "subs", {"zoe/exercises.py": "good", f"eve.{kind}": data})
    assert note in refusal(source)
    assert f"eve.{kind}/eve.{kind}" not in refusal(source)
    assert {path.name for path in tmp_path.iterdir()} == {"subs", "out"}


def test_an_archive_inside_the_class_archive_is_not_opened(tmp_path: Path) -> None:
    source = tmp_path / "subs.zip"
    source.write_bytes(zipped({"zoe/exercises.py": "good", "eve/mine.zip": zipped({"exercises.py": "x"})}))
    assert "eve/mine.zip is an archive inside an archive, which is not opened: unpack" in refusal(source)


NAMES = [
    "a\nb",
    "a\x1b[2Jb",
    "a\u202eb",
    os.fsdecode(b"a\xff\xfeb"),
    "n" * 250,
    "CON",
    "-rf",
    "a;b$(c)",
    "<b>x</b>",
    "=1+1",
]


def test_odd_names_of_students(tmp_path: Path) -> None:
    source = make(tmp_path / "subs", {f"{name}/exercises.py": str(place) for place, name in enumerate(NAMES)})
    submissions = grades(source)
    assert sorted(filter(None, texts(submissions).values())) == sorted(str(place) for place in range(len(NAMES)))
    for submission in submissions.values():
        assert submission.student.student_id.isprintable()
        assert submission.student.student_id.encode()
        assert submission.file
        assert submission.file.parent.name.isascii()


def test_names_that_differ_only_in_case_or_spelling_stay_separate(tmp_path: Path) -> None:
    source = make(tmp_path / "subs", {f"{name}/exercises.py": name for name in ("é", "e\u0301", "Ann", "ann")})
    submissions = grades(source)
    assert texts(submissions) == {(name, "02"): name for name in ("é", "e\u0301", "Ann", "ann")}
    assert len({str(submission.file).lower() for submission in submissions.values()}) == 4
    assert all("differs only in case" in submission.notes[0] for submission in submissions.values())


def test_collecting_again_replaces_the_whole_copy(tmp_path: Path) -> None:
    source = make(tmp_path / "subs", {"ada1/exercises.py": "first"})
    before = only(grades(source))
    make(source, {"ada1/exercises.py": "second"})
    after = only(grades(source))
    assert before.sha256 != after.sha256
    assert after.file
    assert after.file.read_text() == "second"
    assert [path.name for path in after.file.parent.iterdir()] == ["exercises.py"]


# Wrong sources and targets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (None, "does not exist: name the folder or the archive"),
        ({}, "holds nothing that looks like a submission"),
        ({"readme.txt": "", "ada/essay.pdf": ""}, "holds nothing that looks like a submission"),
        ({"exercises.py": "A"}, "is one student's own folder, not one of many students'"),
        ({"work/lab-02/exercises.py": "A"}, "is one student's own folder"),
        ({"lab-02/exercises.py": "A"}, "is one student's own folder"),
        ({"lab-04/ada/exercises.py": "A"}, "holds nothing that looks like a submission"),
    ],
)
def test_a_wrong_source_is_refused_before_any_work(tmp_path: Path, tree: Tree | None, message: str) -> None:
    if tree is not None:
        (tmp_path / "subs").mkdir()
        make(tmp_path / "subs", tree)
    with pytest.raises(UserError, match=message):
        grades(tmp_path / "subs")
    assert not (tmp_path / "out").exists()


def test_a_wrong_out_folder_or_archive_is_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "subs", {"ada/exercises.py": "A"})
    for out in (source, source / "out", tmp_path):
        with pytest.raises(UserError, match="contains the other: choose another folder with --out"):
            collect(source, [LAB_02], out)
    (tmp_path / "class.rar").write_text("")
    with pytest.raises(UserError, match=r"class.rar is neither a folder nor a .zip or .tar.gz"):
        grades(tmp_path / "class.rar")
    (tmp_path / "class.zip").write_text("")
    with pytest.raises(UserError, match=r"class.zip is no archive \(BadZipFile\)"):
        grades(tmp_path / "class.zip")
