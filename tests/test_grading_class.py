"""Grading of a class: expected points, also after a kill and on Ray, and the messages of `rankzero grade`."""

import csv
import errno
import json
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from classes import Expected, earned, hand_in, write_class
from sandboxes import needs_sandbox
from typer.testing import CliRunner

from rankzero.cli import app as cli
from rankzero.curriculum import find_lab
from rankzero.grading import batch
from rankzero.grading.grade import Grade, read_grade
from rankzero.grading.grader import Grader, GradingSettings
from rankzero.grading.regrade import GradingTask

pytestmark = needs_sandbox()
LAB = find_lab("02")
LONG_S = 300.0  # limit of a process that ends by itself
COUNT = 8  # references, stubs, known mistakes and attacks in turn
SEED = 11  # as in the shared grader, so that references run once
runner = CliRunner()


def run(*arguments: object) -> tuple[int, str]:
    result = runner.invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture(scope="module", autouse=True)
def executor(shared_grader: Grader) -> Iterator[None]:
    """Makes `rankzero grade` use the shared grader in this process; in other processes it starts a new grader."""
    labs = shared_grader.settings.labs

    def run_in_shared_grader(tasks: Sequence[GradingTask], settings: GradingSettings, jobs: int) -> Iterator[Grade]:
        shared_grader.settings = replace(settings, labs=labs)
        return map(shared_grader.do, tasks)

    before = shared_grader.settings
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(batch.EXECUTORS, "local", run_in_shared_grader)
        patch.setattr(secrets, "token_hex", lambda count=0: 2 * count * "5")  # a run draws its seeds from a secret
        yield
    shared_grader.settings = before


def verdicts(out: Path) -> dict[str, Any]:
    """Returns each grade without times and paths, by lab and student."""
    files = sorted((out / "grades").glob("*/*.json"))
    return {f"{file.parent.name}/{file.stem}": read_grade(file).verdict() for file in files}


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Expected]:
    folder = tmp_path_factory.mktemp("class")
    return folder, write_class(folder, LAB, COUNT)


@pytest.fixture(scope="module")
def graded(handed_in: tuple[Path, Expected], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the grades of the class."""
    out = tmp_path_factory.mktemp("graded") / "out"
    code, output = run("grade", handed_in[0], "--lab", "02", "--out", out, "--seed", SEED, "--json")
    assert code == 0, output
    counts = json.loads(output)
    assert counts["graded"] + counts["missing"] == COUNT
    return out


def test_each_grade_is_as_expected(handed_in: tuple[Path, Expected], graded: Path) -> None:
    assert earned(graded, LAB, handed_in[1]) == handed_in[1]
    with (graded / "grades.csv").open(newline="") as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert scores == {name.split("/")[1]: grade["score"] for name, grade in verdicts(graded).items()}
    assert (graded / "index.html").stat().st_size > 1000
    assert {file.stem for file in (graded / "students").iterdir()} == set(handed_in[1])
    gradescope = json.loads((graded / "gradescope" / "02" / "student-000.json").read_text())
    classroom = json.loads((graded / "classroom" / "02" / "student-000.json").read_text())
    assert (gradescope["score"], classroom["max_score"]) == (50, 50)
    assert "50 of 50" in run("feedback", graded, "student-000")[1]


@pytest.mark.prove
def test_a_killed_run_resumes_with_equal_grades(handed_in: tuple[Path, Expected], graded: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "rankzero.cli", "grade", str(handed_in[0]), "--lab", "02", "--out", str(out)]
    process = subprocess.Popen([*command, "--seed", str(SEED), "--jobs", "1"], stdout=subprocess.DEVNULL)
    while len(list(out.glob("new-grades/02/*.json"))) < COUNT // 3:
        assert process.poll() is None
        time.sleep(0.02)
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(started, timeout=LONG_S)
    assert not alive
    assert COUNT // 3 <= len(list(out.glob("new-grades/02/*.json"))) < COUNT
    assert not list(out.glob("**/*.partial"))
    again = run("grade", handed_in[0], "--lab", "02", "--out", out)
    assert again[0] == 2
    assert "--resume" in again[1]
    assert run("grade", handed_in[0], "--lab", "02", "--out", out, "--resume")[0] == 0
    assert verdicts(out) == verdicts(graded)


def test_a_resumed_run_grades_only_new_and_changed_submissions(graded: Path, tmp_path: Path) -> None:
    few, out = tmp_path / "few", tmp_path / "out"
    write_class(few, LAB, 3)
    assert run("grade", few, "--lab", "02", "--out", out, "--seed", SEED)[0] == 0
    before = read_grade(out / "grades" / "02" / "student-000.json")
    hand_in(few / "student-001", LAB.reference.read_bytes())
    hand_in(few / "new", LAB.reference.read_bytes())
    assert run("grade", few, "--lab", "02", "--out", out, "--resume")[0] == 0
    after = read_grade(out / "grades" / "02" / "student-000.json")
    assert replace(after, flags=()) == replace(before, flags=()), "kept, but compared with the new files"
    grades = verdicts(out)
    assert [grades[f"02/{name}"]["points"] for name in ("student-000", "student-001", "new")] == [50, 50, 50]
    assert {tuple(grade["seeds"]) for grade in grades.values()} == {(SEED,)}
    output = run("grade", few, "--lab", "02", "--out", out, "--resume", "--seed", SEED + 1)[1]
    assert "the run to resume has seed 11; another seed needs another --out" in output


@pytest.mark.prove
def test_a_resumed_run_uses_new_late_rules_and_keeps_the_recorded_deadline_and_roster(tmp_path: Path) -> None:
    subs, out, roster = tmp_path / "subs", tmp_path / "out", tmp_path / "roster.csv"
    write_class(subs, LAB, 1)
    roster.write_text(
        "student_id,last_name,first_name,email\nstudent-000,Lovelace,Ada,ada@example.org\nabsent,No,One,\n"
    )
    first = ["grade", subs, "--lab", "02", "--out", out, "--roster", roster, "--due", "2023-11-14 12:00Z"]
    assert run(*first, "--late-percent-per-day", 10)[0] == 0
    assert [read_grade(out / "grades" / "02" / f"{name}.json").score for name in ("student-000", "absent")] == [45, 0]
    assert run(*first, "--late-percent-per-day", 10, "--late-grace-hours", 12, "--resume")[0] == 0
    assert read_grade(out / "grades" / "02" / "student-000.json").score == 50
    assert "Ada Lovelace" in (out / "students" / "student-000.html").read_text()
    assert run("grade", subs, "--lab", "02", "--out", out, "--late-percent-per-day", 10, "--resume")[0] == 0
    assert read_grade(out / "grades" / "02" / "student-000.json").score == 45, "the deadline is recorded"
    assert run("grade", subs, "--lab", "02", "--out", out, "--resume")[0] == 0
    assert read_grade(out / "grades" / "02" / "student-000.json").score == 45, "the late policy is recorded"
    with (out / "grades.csv").open(newline="") as file:
        names = {row["student_id"]: row["last_name"] for row in csv.DictReader(file)}
    assert names == {"student-000": "Lovelace", "absent": "No"}, "the roster is recorded"


def test_grades_without_a_sandbox_are_marked_on_every_page(tmp_path: Path) -> None:
    subs, out = tmp_path / "subs", tmp_path / "out"
    expected = write_class(subs, LAB, 2)
    assert run("grade", subs, "--lab", "02", "--out", out, "--trusted", "--seed", SEED)[0] == 0
    assert earned(out, LAB, expected) == expected
    for page in [out / "index.html", *(out / "students").iterdir()]:
        assert "without a sandbox" in page.read_text()


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_a_class_of_200_gets_the_expected_points(tmp_path: Path) -> None:
    subs, out = tmp_path / "subs", tmp_path / "out"
    expected = write_class(subs, LAB, 200)
    command = [sys.executable, "-m", "rankzero.cli", "grade", str(subs), "--lab", "02", "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert earned(out, LAB, expected) == expected


@pytest.mark.prove
def test_ray_gives_the_same_grades(graded: Path, handed_in: tuple[Path, Expected], tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    few = tmp_path / "few"
    names = sorted(write_class(few, LAB, 6))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        out = tmp_path / "out"
        options = ["--seed", SEED, "--executor", "ray", "--jobs", 2]
        assert run("grade", few, "--lab", "02", "--out", out, *options)[0] == 0
    finally:
        ray.shutdown()
    local = verdicts(graded)
    assert verdicts(out) == {f"02/{name}": local[f"02/{name}"] for name in names}


BAD = {
    "no submissions": (["grade"], "name the submissions, a --lab and an --out"),
    "a lab that is none": (["grade", "{subs}", "--lab", "99", "--out", "{out}"], "there is no lab '99'"),
    "a folder that is none": (["grade", "{subs}/none", "--lab", "02", "--out", "{out}"], "none"),
    "a date": (["grade", "{subs}", "--lab", "02", "--out", "{out}", "--due", "soon"], "'soon' is no date"),
    "a roster": (["grade", "{subs}", "--lab", "02", "--out", "{out}", "--roster", "{subs}/no.csv"], "no.csv"),
    "OUT is not empty": (["grade", "{subs}", "--lab", "02", "--out", "{subs}"], "holds other files"),
    "no such student": (["feedback", "{subs}", "ada"], "holds no grades: name the folder"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_bad_input_gets_one_sentence_before_any_work(mistake: str, tmp_path: Path) -> None:
    subs, out = tmp_path / "subs", tmp_path / "out"
    write_class(subs, LAB, 1)
    arguments, sentence = BAD[mistake]
    code, output = run(*(argument.format(subs=subs, out=out) for argument in arguments))
    assert code == 2
    assert sentence in output
    assert output.startswith("rankzero: ")
    assert not out.exists()


def test_a_full_disk_gets_one_sentence_and_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(partial: Path, _: bytes) -> int:
        partial.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    subs, out = tmp_path / "subs", tmp_path / "out"
    write_class(subs, LAB, 1)
    monkeypatch.setattr(Path, "write_bytes", full)
    code, output = run("grade", subs, "--lab", "02", "--out", out)
    assert code == 2
    assert re.search(r"^rankzero: cannot write .*No space left on device.*: make room.*--resume goes on", output)
    assert not list(out.rglob("*.partial"))


def test_grading_stops_early_when_no_submission_can_be_graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escape codes in students' names do not reach the terminal."""

    def broken(tasks: Any, settings: Any, jobs: int) -> Iterator[Grade]:
        for task in tasks:
            yield Grade(task.submission, (1,), "0", settings.isolation, "", 0.0, 50, trouble="no sandbox")

    monkeypatch.setitem(batch.EXECUTORS, "local", broken)
    few, many = tmp_path / "few", tmp_path / "many"
    hand_in(few / "ad\x1b[2Ja", LAB.reference.read_bytes())
    code, output = run("grade", few, "--lab", "02", "--out", tmp_path / "out")
    assert code == 1
    assert output.startswith("Not graded: ad\\x1b[2Ja")
    assert "\x1b" not in output
    assert "no sandbox 0 graded" in output
    write_class(many, LAB, 8)
    code, output = run("grade", many, "--lab", "02", "--out", tmp_path / "other")
    assert (code, output) == (2, "rankzero: none of the first 4 submissions can be graded: no sandbox.")
