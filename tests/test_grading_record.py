"""Grades to defend: what made them, regrading with a table of differences, facts of hand-ins, decisions of people."""

import csv
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from classes import HANDED_IN, earned, hand_in, write_class
from sandboxes import needs_sandbox
from test_grading_class import executor, run  # noqa: F401 (the fixture makes `run` use the shared grader)

from rankzero.curriculum import Lab, find_lab
from rankzero.exercises.checks.check import Check, exercises_of
from rankzero.grading import batch
from rankzero.grading.executors import run_locally
from rankzero.grading.grade import Adjustment, Grade, read_grade
from rankzero.grading.lab_digest import check_digests, lab_digest
from rankzero.grading.report import github_classroom_results, gradescope_results

pytestmark = needs_sandbox()
LAB = find_lab("02")
CHECKS = {check.name: check for exercise in exercises_of(LAB) for check in exercise.checks}
POINTS = {exercise.name: exercise.points for exercise in exercises_of(LAB)}
RULES = ["--due", "2023-11-15 00:00Z", "--late-percent-per-day", 10]  # students of `write_class` are in time
DAY = 24 * 60 * 60


def grades_in(out: Path) -> dict[str, Grade]:
    """Returns the grades by student."""
    grades = map(read_grade, sorted((out / "grades" / "02").glob("*.json")))
    return {grade.submission.student.student_id: grade for grade in grades}


def scores(out: Path) -> dict[str, float]:
    return {student: grade.score for student, grade in grades_in(out).items()}


def table(out: Path) -> list[dict[str, str]]:
    """Returns the rows of differences.csv."""
    file = out / "differences.csv"
    return list(csv.DictReader(file.open(newline=""))) if file.exists() else []


def plain_copy(folder: Path, copy: Path) -> Path:
    """Copies as `cp -r` does: every file has the time of the copy."""
    shutil.copytree(folder, copy, copy_function=shutil.copyfile)
    return copy


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Changes attributes of a check, and its digest if these decide a verdict; the test's end undoes it."""
    undo: list[tuple[Check, str, Any]] = []

    def change_check(name: str, **attributes: Any) -> None:
        for key, value in attributes.items():
            undo.append((CHECKS[name], key, getattr(CHECKS[name], key)))
            object.__setattr__(CHECKS[name], key, value)
        if attributes.keys() - {"points"}:
            monkeypatch.setitem(check_digests(LAB), name, "another digest")

    yield change_check
    for check, key, value in reversed(undo):
        object.__setattr__(check, key, value)


# ------------------------------------------------------------------------------------------------------- a whole class
def defend(subs: Path, out: Path, count: int, change: Any) -> None:
    """Grades a class, then resumes after a copy, a changed check and adjustments: every grade is as predicted."""
    expected = write_class(subs, LAB, count)
    late = sorted(expected)[4::5]
    for student in late:
        os.utime(subs / student / "exercises.py", (HANDED_IN + DAY, HANDED_IN + DAY))
    odd = "=1+1, Ödön (2)"
    hand_in(subs / odd, LAB.reference.read_bytes())
    hand_in(subs / odd / "lab-02", LAB.reference.read_bytes())  # handed in twice
    grade = ["grade", subs, "--lab", "02", "--out", out, *RULES]
    assert run(*grade)[0] == 0
    assert earned(out, LAB, expected) == expected
    first = grades_in(out)
    assert [student for student, graded in first.items() if not graded.gradable] == [], "such a grade is not kept"
    assert {student: graded.late_days for student, graded in first.items() if graded.late_days} == dict.fromkeys(
        late, 1
    )
    assert all(graded.score == max(0, graded.points - 5 * graded.late_days) for graded in first.values())
    assert len({graded.seeds for graded in first.values()}) > count // 2
    assert not table(out), "first grades replace none"

    copied = plain_copy(subs, subs.with_name("copied"))
    code, output = run("grade", copied, "--lab", "02", "--out", out, "--resume")
    graded = {student: grade for student, grade in first.items() if grade.report}  # without a file that is too large
    assert (code, f"{len(graded)} are kept" in output) == (0, True), output
    assert {student: graded.verdict() for student, graded in grades_in(out).items()} == {
        student: graded.verdict() for student, graded in first.items()
    }
    assert not table(out)

    changed, revalued = "learning_rate/no-warm-up", "train_step/loss"
    change(changed, judge=lambda got, expected: "nothing is right any more")
    change(revalued, points=CHECKS[revalued].points + 2)
    code, output = run("grade", copied, "--lab", "02", "--out", out, "--resume")
    assert f"{changed} has changed" in output
    second = grades_in(out)
    rows = {
        (row["student_id"].removeprefix("'"), row["check"]): (float(row["before"]), float(row["after"]))
        for row in table(out)
    }
    predicted = {}
    for student, before in graded.items():
        assert before.report
        points = {result.check: result.points for result in before.report.results}
        lost, gained = points[changed], 2 * (points[revalued] > 0)
        if gained:  # a row that changes no number is left out
            predicted[revalued, student] = (points[revalued], points[revalued] + gained)
        if lost:
            predicted[changed, student] = (lost, 0)
        assert second[student].points == before.points - lost + gained, student
        kept = {check for check in points if check != changed and not before.report.unusable}  # else all are new
        assert {check: second[student].judged[check] for check in kept} == {
            check: before.judged[check] for check in kept
        }, "the other verdicts are those of the first run"
        if lost:
            assert set(second[student].judged[changed]).isdisjoint(before.seeds), "a printed seed is not used again"
    assert {key[::-1]: value for key, value in predicted.items()}.items() <= rows.items()
    assert all(before != after for before, after in rows.values())
    changed_scores = {student for student, what in rows if what == "score"}
    assert changed_scores == {student for student in first if first[student].score != second[student].score}
    assert "Changes since the last grades" in (out / "index.html").read_text()

    wrong = sorted(expected)[2]
    (out / "adjustments.csv").write_text(
        "student,lab,exercise,points,change,extension_hours,comment,who,when\n"
        f"{wrong},02,evaluate,,2,,half right,Prof. Noether,2026-11-22\n"
        f"student-001,2,,40,,,oral exam,,\n"
        f"{late[0]},,,,,48,ill,,\n"
    )
    assert run("grade", "--out", out, "--resume")[0] == 0
    third = scores(out)
    adjusted = {wrong: second[wrong].score + 2, "student-001": 40, late[0]: second[late[0]].points}
    assert third == {student: graded.score for student, graded in second.items()} | adjusted
    new = table(out)[len(rows) :]
    assert {(row["student_id"], row["check"]) for row in new} >= {(wrong, "adjustment"), ("student-001", "adjustment")}
    assert {row["student_id"] for row in new} == {
        student for student in adjusted if third[student] != second[student].score
    }
    for page in (out / "index.html", out / "students" / f"{wrong}.html"):
        assert "+2 points for evaluate" in page.read_text()
        assert "Prof. Noether" in page.read_text()
    assert json.loads((out / "gradescope" / "02" / "student-001.json").read_text())["score"] == 40
    length = len(table(out))
    assert run("grade", copied, "--lab", "02", "--out", out, "--resume")[0] == 0
    assert (scores(out), len(table(out))) == (third, length), "a person's points survive every run"


@pytest.mark.prove
def test_every_grade_of_a_small_class_is_as_predicted_after_each_change(tmp_path: Path, change: Any) -> None:
    defend(tmp_path / "subs", tmp_path / "out", 5, change)


@pytest.mark.prove
@pytest.mark.timeout(3000)
def test_every_grade_of_a_class_of_200_is_as_predicted_after_each_change(
    tmp_path: Path, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(batch.EXECUTORS, "local", run_locally)
    defend(tmp_path / "subs", tmp_path / "out", 199, change)


# ------------------------------------------------------------------------------------------ some students, some checks
@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with submissions of three students and their grades, to copy."""
    folder = tmp_path_factory.mktemp("first-run")
    write_class(folder / "subs", LAB, 3)
    assert run("grade", folder / "subs", "--lab", "02", "--out", folder / "out", *RULES)[0] == 0
    return folder


@pytest.fixture
def graded(first_run: Path, tmp_path: Path) -> Path:
    """A copy of the class, with its times."""
    shutil.copytree(first_run, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out"


def test_a_grade_names_everything_that_made_it(graded: Path) -> None:
    grade = grades_in(graded)["student-000"]
    assert grade.lab_digest == lab_digest(LAB)
    assert grade.digests == check_digests(LAB)
    assert set(grade.judged) == set(CHECKS)
    assert len(grade.seeds) == 3
    assert len(grade.submission.sha256) == 64
    page = (graded / "students" / "student-000.html").read_text()
    for name in (*map(str, grade.seeds), grade.lab_digest, grade.commit, grade.submission.sha256):
        assert name in page
    secret = json.loads((graded / "run.json").read_text())["pool"]["secret"]
    others = [file for file in graded.rglob("*") if file.is_file() and file.name != "run.json"]
    assert not any(secret.encode() in file.read_bytes() for file in others)


def test_one_check_is_graded_again_for_all_and_another_check_for_nobody(graded: Path) -> None:
    before = grades_in(graded)
    code, output = run("grade", "--out", graded, "--check", "learning_rate/no-warm-up")
    assert code == 0
    assert "learning_rate/no-warm-up: 3 submissions are graded on it again" in output
    after = grades_in(graded)
    again = {check for check in CHECKS if after["student-000"].judged[check] != before["student-000"].judged[check]}
    assert again == {"learning_rate/no-warm-up"}
    assert {name: grade.points for name, grade in after.items()} == {n: grade.points for n, grade in before.items()}
    assert not table(graded)
    assert "there are learning_rate/warm-up" in run("grade", "--out", graded, "--check", "learning_rate/no")[1]
    assert "No probe, judge or reference has changed" in run("grade", "--out", graded, "--changed")[1]


@pytest.mark.prove
def test_one_student_is_graded_alone(graded: Path) -> None:
    subs = graded.with_name("subs")
    hand_in(subs / "student-001", LAB.reference.read_bytes())
    hand_in(subs / "student-002", LAB.reference.read_bytes())
    assert run("grade", subs, "--out", graded, "--student", "student-001")[0] == 0
    points = {student: grade.points for student, grade in grades_in(graded).items()}
    assert (points["student-001"], points["student-002"] < 50, len(points)) == (50, True, 3)
    code, output = run("grade", subs, "--out", graded, "--student", "eve")
    assert (code, "--student eve: no student here has this id" in output) == (2, True)
    alone = graded.with_name("alone")
    assert run("grade", subs, "--lab", "02", "--out", alone, "--student", "student-002")[0] == 0
    assert scores(alone) == {"student-002": 50}


def test_no_grade_is_replaced_before_the_table_of_differences_is_written(
    graded: Path, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (graded / "grades" / "02" / "student-000.json").read_bytes()
    change("learning_rate/no-warm-up", judge=lambda got, expected: "nothing is right any more")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batch, "write_grade", stop)
        run("grade", "--out", graded, "--changed")
    assert not table(graded)
    with monkeypatch.context() as patch:
        patch.setattr(batch, "write_reports", stop)
        run("grade", "--out", graded, "--changed")
    assert {row["student_id"] for row in table(graded)} == {"student-000", "student-002"}
    assert (graded / "grades" / "02" / "student-000.json").read_bytes() == before
    made = json.loads((graded / "new-grades" / "02" / "student-000.json").read_text())
    assert run("grade", "--out", graded, "--changed")[0] == 0
    assert grades_in(graded)["student-000"].graded_at == made["graded_at"], "an interrupted run goes on"
    assert not (graded / "new-grades").exists()


# --------------------------------------------------------------------------------------------------- facts of a hand-in
def test_copies_and_a_later_roster_change_no_lateness_and_retime_does(graded: Path) -> None:
    before = grades_in(graded)
    copied = plain_copy(graded.with_name("subs"), graded.with_name("copied"))
    roster = graded.with_name("roster.csv")
    roster.write_text("student_id,last_name,first_name,email\ns7,Student,000,student-000@example.org\n")
    (copied / "student-000").rename(copied / "student-000@example.org")
    resume = ["grade", copied, "--lab", "02", "--out", graded, "--resume"]
    assert run(*resume, "--roster", roster)[0] == 0
    after = grades_in(graded)
    assert set(after) == {"s7", "student-001", "student-002"}, "the roster changed an id, and the grade moved"
    assert after["s7"].submission.submitted_at == before["student-000"].submission.submitted_at
    assert after["s7"].judged == before["student-000"].judged
    assert {page.stem for page in (graded / "students").iterdir()} == set(after)
    assert not any(grade.late_days for grade in after.values())
    assert run(*resume, "--retime")[0] == 0
    assert all(grade.late_days > 300 for grade in grades_in(graded).values())
    reasons = {row["reason"] for row in table(graded) if row["check"] == "late work"}
    assert len(reasons) == 1
    assert reasons.pop().endswith("another time of hand-in")


@pytest.mark.prove
def test_a_copy_without_times_changes_no_choice_of_a_file_and_a_new_file_does(graded: Path) -> None:
    subs = graded.with_name("subs")
    older, newer = subs / "student-002" / "exercises.py", subs / "student-002" / "exercises (1).py"
    newer.write_bytes(LAB.reference.read_bytes() + b"# the newer file")
    os.utime(newer, (HANDED_IN + 600, HANDED_IN + 600))
    assert older.read_bytes() != newer.read_bytes()
    assert run("grade", subs, "--lab", "02", "--out", graded, "--resume")[0] == 0
    before = grades_in(graded)["student-002"].submission
    copied = plain_copy(subs, graded.with_name("copied"))
    for file in copied.rglob("*.py"):
        os.utime(file, (HANDED_IN, HANDED_IN))
    assert run("grade", copied, "--lab", "02", "--out", graded, "--resume")[0] == 0
    after = grades_in(graded)["student-002"].submission
    assert (after.sha256, after.submitted_at) == (before.sha256, before.submitted_at)
    hand_in(copied / "student-002", LAB.reference.read_bytes() + b"# the newest file")
    os.utime(copied / "student-002" / "exercises.py", (HANDED_IN + 900, HANDED_IN + 900))
    assert run("grade", copied, "--lab", "02", "--out", graded, "--resume")[0] == 0
    assert grades_in(graded)["student-002"].submission.sha256 not in (before.sha256, *before.passed_over)


def test_a_folder_renamed_to_the_id_of_a_missing_student_moves_the_grade(graded: Path) -> None:
    subs, roster = graded.with_name("subs"), graded.with_name("roster.csv")
    roster.write_text("student_id,last_name,first_name,email\ns7,Lovelace,Ada,\n")
    resume = ["grade", subs, "--out", graded, "--resume", "--roster", roster]
    assert run(*resume)[0] == 0
    before = grades_in(graded)
    assert (before["s7"].score, before["student-000"].score) == (0, 50)
    (subs / "student-000").rename(subs / "s7")
    assert run(*resume)[0] == 0
    after = grades_in(graded)
    assert set(after) == {"s7", "student-001", "student-002"}
    assert after["s7"].submission.submitted_at == before["student-000"].submission.submitted_at
    assert [(row["check"], row["before"], row["after"]) for row in table(graded)] == [
        ("all checks", "0.0", "50.0"),
        ("score", "", "50.0"),  # the folder may have been this student's
    ]


def test_a_student_whose_folder_is_gone_keeps_the_grade(graded: Path) -> None:
    before = scores(graded)
    shutil.rmtree(graded.with_name("subs") / "student-000")
    assert run("grade", graded.with_name("subs"), "--lab", "02", "--out", graded, "--resume")[0] == 0
    assert scores(graded) == before


# -------------------------------------------------------------------------------------------------- decisions of people
BAD_ROWS = {
    "eve,02,,3,,,,,": "no student of this class is called 'eve'",
    ",02,,3,,,,,": "line 2: the student is missing",
    "student-000,09,,3,,,,,": "line 2: lab '09' is not graded here; the labs are 02",
    "student-000,02,trainstep,3,,,,,": "line 2: exercise 'trainstep': the exercises of lab 02 are train_step, evaluate",
    "student-000,02,,many,,,,,": "line 2: points is 'many': it must be a number",
    "student-000,02,,nan,,,,,": "line 2: points is 'nan': it must be a number",
    "student-000,02,,,,,,,": "line 2: it changes nothing",
    "student-000,,,3,,,,,": "line 2: points belong to a lab",
    "student-000,02,train_step,,,24,,,": "line 2: a deadline belongs to a lab, not to an exercise",
    "student-000,02,,,,-24,,,": "line 2: extension_hours is -24: a deadline can only be later",
}


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_bad_row_of_adjustments_gets_one_sentence(row: str, graded: Path) -> None:
    with (graded / "adjustments.csv").open("a") as file:
        file.write(f"{row}\n")
    code, output = run("grade", "--out", graded, "--resume")
    assert code == 2
    assert output.startswith("rankzero: ")
    assert "adjustments.csv" in output.replace(" ", "")
    assert BAD_ROWS[row].replace(" ", "") in output.replace(" ", "")


def test_all_bad_rows_of_adjustments_are_named_at_once(graded: Path) -> None:
    with (graded / "adjustments.csv").open("a") as file:
        file.write("\n".join(BAD_ROWS))
    output = run("grade", "--out", graded, "--resume")[1].replace(" ", "")
    for number, sentence in enumerate(BAD_ROWS.values(), start=2):
        assert f"line{number}:{sentence.removeprefix('line 2: ').replace(' ', '')}" in output


def test_adjustments_may_come_from_a_spreadsheet(graded: Path) -> None:
    text = "\ufeffstudent;lab;exercise;points;change\r\nstudent-001;2;train_step;2,5;\r\nstudent-001;2;;+1;\r\n;;;;\r\n"
    (graded / "adjustments.csv").write_text(text, encoding="utf-8")
    assert run("grade", "--out", graded, "--resume")[0] == 0
    assert scores(graded)["student-001"] == 3.5


def adjusted(grade: Grade, *rows: Adjustment) -> Grade:
    return replace(grade, adjustments=rows)


def test_points_of_a_person_count_where_grading_failed_and_in_every_format(graded: Path) -> None:
    grade = grades_in(graded)["student-000"]
    failed = replace(grade, report=None, trouble="the sandbox did not start.")
    assert not failed.counts
    decided = adjusted(failed, Adjustment("student-000", "02", points=31))
    assert (decided.counts, decided.score) == (True, 31)
    later = adjusted(failed, Adjustment("student-000", "02", extension_hours=24))
    assert not later.counts
    late = replace(grade, late_days=1, late_penalty=5.0)
    more = adjusted(late, Adjustment("", "02", "train_step", points=0, change=1), Adjustment("", "02", change=-2))
    assert more.score == 50 - POINTS["train_step"] + 1 - 5 - 2
    assert adjusted(late, Adjustment("", "02", points=12)).score == 12, "a person's points are final"
    for one in (decided, more):
        gradescope, classroom = gradescope_results.results(one, LAB), github_classroom_results.results(one, LAB)
        assert gradescope["score"] == one.score
        assert "Adjusted" in gradescope["output"]
        assert sum(test["score"] for test in classroom["tests"]) == one.score


# ----------------------------------------------------------------------------------------------------------- anonymity
def numbers_in(key: Path) -> dict[str, int]:
    with key.open(newline="") as file:
        return {row["student_id"]: int(row["number"]) for row in csv.DictReader(file)}


@pytest.mark.prove
def test_anonymous_pages_name_nobody_and_the_key_tells_who_is_who(graded: Path, tmp_path: Path) -> None:
    subs, copier = graded.with_name("subs"), "copier-of-student-000"
    hand_in(subs / copier, (subs / "student-000" / "exercises.py").read_bytes())
    roster = tmp_path / "roster.csv"
    rows = ("student-000,Noether,Emmy,e@example.org", "student-001,Lovelace,Ada,a@example.org")
    roster.write_text("student_id,last_name,first_name,email\n" + "\n".join(rows))
    (graded / "adjustments.csv").write_text("student,lab,change,comment\nstudent-001,02,1,as Emmy Noether\n")
    options = ["--out", graded, "--resume", "--roster", roster]
    assert run("grade", subs, *options, "--anonymous")[0] == 0
    key = numbers_in(graded / "key.csv")
    assert sorted(key.values()) == [1, 2, 3, 4]
    assert {page.stem for page in (graded / "students").iterdir()} == {f"{number:03}" for number in key.values()}
    for page in graded.rglob("*.html"):
        for name in ("student-00", "Noether", "Lovelace", "Emmy", "example.org", copier):
            assert name not in page.read_text(), (page.name, name)
    assert f"as Student {key['student-000']:03}" in (graded / "index.html").read_text()
    assert "Lovelace" in (graded / "grades.csv").read_text(), "course systems need names"
    hand_in(subs / "a-new-student", LAB.reference.read_bytes())
    assert run("grade", subs, *options)[0] == 0
    assert numbers_in(graded / "key.csv") == {**key, "a-new-student": 5}, "numbers stay, and so does anonymity"
    assert run("grade", "--out", graded, "--resume", "--named")[0] == 0
    assert "Emmy" in (graded / "index.html").read_text()
    assert not (graded / "students" / "001.html").exists()


# ------------------------------------------------------------------------------------------------------------- digests
@pytest.fixture
def copied_lab(tmp_path: Path) -> Lab:
    for path in (LAB.tests, LAB.solutions, LAB.folder):
        shutil.copytree(path, tmp_path / path.relative_to(LAB.root))
    return replace(LAB, root=tmp_path)


PROBE = "def no_warmup(learner: ModuleType, seed: int) -> dict[str, Any]:\n"
EDITS = {
    "a comment": ("probes", "def no_warmup(", "# a comment\ndef no_warmup(", set()),
    "a docstring": ("probes", f'{PROBE}    """', f'{PROBE}    """Mind: ', set()),
    "a probe": ("probes", PROBE, f"{PROBE}    seed += 1\n", {"learning_rate/no-warm-up"}),
    "the points": ("checks", "points=3", "points=5", set()),
    "an import": ("probes", "import random\n", "import random\nimport zlib\n", set()),
    "a statement at the top": ("probes", "\n\n\ndef ", "\n\nrandom.seed(3)\n\n\ndef ", None),
}


@pytest.mark.parametrize("edit", EDITS)
def test_the_digest_of_a_check_changes_with_what_decides_it(edit: str, copied_lab: Lab) -> None:
    name, old, new, expected = EDITS[edit]
    file: Path = getattr(copied_lab, name)
    source = file.read_text()
    assert old in source
    file.write_text(source.replace(old, new, 1))
    digests, before = check_digests(copied_lab), check_digests(LAB)
    changed = {check for check in CHECKS if digests[check] != before[check]}
    assert changed == (set(CHECKS) if expected is None else expected)


def test_the_digests_follow_the_reference_and_the_known_wrong_solutions(copied_lab: Lab) -> None:
    source = copied_lab.reference.read_text()
    body = source.index("### BEGIN SOLUTION", source.index("def learning_rate"))
    copied_lab.reference.write_text(f"{source[:body]}peak = peak + 0.0\n    {source[body:]}")
    known_wrong = copied_lab.known_wrong.read_text()
    copied_lab.known_wrong.write_text(known_wrong.replace("explanation=", "explanation='Mind: '", 1))
    digests, before = check_digests(copied_lab), check_digests(LAB)
    changed = {name for name in digests if digests[name] != before[name]}
    assert {name for name in changed if name.startswith("learning_rate/")} == {
        name for name in CHECKS if name.startswith("learning_rate/")
    }
    assert not {name for name in changed if name.startswith(("evaluate/", "checkpoint/"))}
    assert "train_step" in changed, "the exercise of the first known-wrong solution"
    assert lab_digest(copied_lab) != lab_digest(LAB)
