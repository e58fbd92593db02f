"""Sandbox: grades of single submissions, the isolation of a submission, and recovery from a failed sandbox."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest
from sandboxes import needs_sandbox

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_source
from rankzero.exercises.checks.probe_client import INSTRUCTION_SETS, TOGETHER
from rankzero.grading.grade import Grade, Student, Submission
from rankzero.grading.grader import Grader, GradingSettings
from rankzero.grading.sandbox import sandbox_client
from rankzero.grading.seed_pool import SeedPool

pytestmark = needs_sandbox()
LAB = find_lab("02")


def handed_in(file: Path, lab: str = "02") -> Submission:
    return Submission(Student("ada"), lab, file)


def grade_with_train_step(tmp_path: Path, body: str, grader: Grader) -> Grade:
    """Returns the grade of the reference with `body` as its train_step."""
    source = LAB.reference.read_text()
    start, end = source.index("def train_step"), source.index("def evaluate")
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    file = tmp_path / "exercises.py"
    file.write_text(f"{source[:start]}def train_step(model, optimizer, x, y, max_norm):\n{lines}\n\n{source[end:]}")
    return grader.grade(handed_in(file))


def printed(tmp_path: Path, body: str, grader: Grader) -> str:
    """Returns the text that a train_step with this body prints."""
    grade = grade_with_train_step(tmp_path, body, grader)
    assert grade.report is not None
    return grade.report.results[0].printed.split("\n\n")[0]


def labs() -> Iterator[Any]:
    """Yields all labs as parameters; `make test` runs one lab with ranks; other tests grade one without.

    The ids are numbers, not slugs, so that one process runs all labs (see conftest.ByLab).
    """
    for lab in all_labs():
        yield pytest.param(lab, id=lab.number, marks=() if lab.number == "07" else pytest.mark.prove)


@pytest.mark.parametrize("lab", list(labs()))
def test_references_get_all_points(lab: Lab, grader: Grader) -> None:
    full = sum(exercise.points for exercise in exercises_of(lab))
    reference = grader.grade(handed_in(lab.reference, lab.number))
    assert (reference.points, reference.max_points, reference.trouble) == (full, full, "")
    assert reference.isolation == "sandbox"


@pytest.mark.prove
@pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.number)
def test_stubs_get_no_points(lab: Lab, grader: Grader) -> None:
    stubs = grader.grade(handed_in(lab.stubs, lab.number))
    assert (stubs.points, stubs.gradable) == (0, True)


@pytest.mark.prove
def test_a_known_mistake_fails_its_checks_and_is_named(tmp_path: Path, grader: Grader) -> None:
    wrong = next(wrong for wrong in known_wrong(LAB).values() if wrong.exercise == "evaluate")
    file = tmp_path / "exercises.py"
    file.write_text(wrong_source(LAB, wrong))
    report = grader.grade(handed_in(file)).report
    assert report is not None
    failed = {result.check for result in report.results if result.status not in ("pass", "skipped")}
    assert failed == set(wrong.fails)
    assert [diagnosis.name for diagnosis in report.diagnoses] == [wrong.name]


@pytest.mark.prove
def test_a_sandbox_computes_with_the_instruction_set_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in INSTRUCTION_SETS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    answer = tmp_path / "exercises.py"
    answer.write_text(LAB.reference.read_text())
    with Grader(GradingSettings((LAB.number,), SeedPool(fixed=(11,)), time_limit=60, memory=1024)) as grader:
        grade = grader.grade(handed_in(answer))
    assert (grade.points, grade.isolation) == (grade.max_points, "sandbox")


def test_a_missing_submission_gets_a_grade_without_a_report(grader: Grader) -> None:
    grade = grader.grade(Submission(Student("ada"), "02", None))
    assert (grade.points, grade.report, grade.gradable) == (0, None, True)


# ---------------------------------------------------------------------------------------------------- time of exercises


class Supervisor(threading.Thread):
    """Stands in for a sandbox's supervisor: answers its request."""

    def __init__(self, end: socket.socket, status: str, worked: float) -> None:
        super().__init__(daemon=True)
        self.connection = Connection(os.dup(end.fileno()))
        self.reply = {"replies": [{"status": status, "text": ""}], "printed": "", "waited": -worked}

    def run(self) -> None:
        with self.connection:
            self.connection.recv_bytes()  # the submission
            self.connection.recv_bytes()
            self.connection.send_bytes(json.dumps(self.reply).encode())


def sandbox_of(replies: Sequence[tuple[str, float]]) -> Callable[[str], str]:
    """Returns a function that asks a probe of an exercise, and returns its status. An exercise may take 60 s.

    The sandboxes, one for each request, answer with these statuses after these seconds of work.
    """
    left = iter(replies)

    @contextmanager
    def opened() -> Iterator[socket.socket]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            Supervisor(theirs, *next(left)).start()
            yield ours

    sandbox = sandbox_client.Sandbox(opened, b"", 60.0)
    request = {"probes": [["probe", 1]], "probes_file": str(LAB.probes), "seconds": 10.0}
    return lambda exercise: str(sandbox._exchange({**request, "exercise": exercise})["replies"][0]["status"])


def test_an_exercise_that_takes_all_its_time_takes_none_of_another() -> None:
    ask = sandbox_of([("answered", 5), ("timeout", 10), ("timeout", 51), ("answered", 59), ("answered", 2)])
    assert ask(TOGETHER) == "answered"
    assert [ask("loops"), ask("loops"), ask("loops")] == ["timeout"] * 3, "a loop is the submission's own mistake"
    assert [ask("honest"), ask("honest")] == ["answered", "answered"]
    with pytest.raises(sandbox_client.TimeUsedUpError, match=r"honest used up its 60 s, .* with --resume"):
        ask("honest")


def test_a_probe_that_takes_all_the_time_is_a_loop_whatever_the_limit() -> None:
    ask = sandbox_of([("timeout", 61)])
    assert [ask("loops"), ask("loops")] == ["timeout", "timeout"]


def test_time_for_all_exercises_together_is_no_exercises_time() -> None:
    ask = sandbox_of([("answered", 61), ("answered", 1)])
    assert [ask(TOGETHER), ask(TOGETHER), ask("honest")] == ["answered", "timeout", "answered"]


def test_an_exercise_without_time_has_no_grade_and_gets_one_with_more_time(tmp_path: Path, grader: Grader) -> None:
    before, slow = grader.settings, "import time\ntime.sleep(0.1)\nreturn 0.0"
    full_points = {exercise.name: exercise.points for exercise in exercises_of(LAB)}
    try:
        grader.settings = replace(before, time_limit=1.0)
        grade = grade_with_train_step(tmp_path, slow, grader)
    finally:
        grader.settings = before
    assert not grade.gradable
    assert grade.trouble.startswith("train_step used up its 1 s, and none of its probes is too slow by itself (")
    again = grade_with_train_step(tmp_path, slow, grader)
    assert again.report
    points = again.report.by_exercise()
    assert (points["train_step"], points["evaluate"]) == (0, full_points["evaluate"])


LOOK_AROUND = f"""
import json, os
from pathlib import Path
files = [os.readlink(f"/proc/self/fd/{{fd}}") for fd in range(64) if os.path.exists(f"/proc/self/fd/{{fd}}")]
processes = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())
private = {[str(LAB.checks), str(LAB.solutions), str(LAB.root / "README.md"), str(Path.home() / ".profile")]}
library = [sorted(os.listdir(f"/lab/code/rankzero/{{room}}")) for room in ("", "exercises", "grading/sandbox")]
kinds = sorted({{file.split(":")[0] for file in files}})
visible = [path for path in private if Path(path).exists()]
print(*map(json.dumps, [kinds, sorted(os.environ), os.getuid(), processes, visible, *library]), sep="\\n", end="\\n\\n")
"""


def test_a_sandbox_holds_neither_answers_nor_files_of_this_machine(tmp_path: Path, grader: Grader) -> None:
    lines = printed(tmp_path, LOOK_AROUND, grader).splitlines()
    open_files, environment, user, processes, visible, *library = map(json.loads, lines)
    assert open_files == ["/dev/null", "pipe"]
    variables = "HOME LANG OMP_NUM_THREADS PATH PWD PYTHONDONTWRITEBYTECODE PYTHONPATH"
    variables += " TORCH_CPP_LOG_LEVEL"
    set_by_torch = {*INSTRUCTION_SETS, "TORCHINDUCTOR_CACHE_DIR"}  # its compiler, where a lab uses it, sets its folder
    assert [name for name in environment if name not in set_by_torch] == variables.split()
    assert user == 1000
    assert processes[0] == 1
    assert len(processes) == 2  # the supervisor and the probe's process
    assert library == [
        ["__init__.py", "atomic_write.py", "errors.py", "exercises", "grading", "learn"],
        ["__init__.py", "probes"],
        ["__init__.py", "memory_meter.py", "namespaces.py", "sandbox_server.py", "seccomp_filter.py"],
    ]
    assert visible == []


def test_nothing_of_a_submission_stays_in_its_sandbox(tmp_path: Path, grader: Grader) -> None:
    leave = "import os, time\nopen('/tmp/left', 'w').close()\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)"
    grade_with_train_step(tmp_path, leave, grader)
    look = "import os\nprint(os.path.exists('/tmp/left'), sum(map(str.isdecimal, os.listdir('/proc'))), '\\n')"
    assert printed(tmp_path, look, grader) == "False 2 "


def test_a_file_that_one_probe_wrote_is_not_there_for_the_next_probe(tmp_path: Path, grader: Grader) -> None:
    look = "import os\nprint(len(os.listdir()), os.getcwd())\nopen('left', 'w').close()\nreturn 1.0, 1.0"
    report = grade_with_train_step(tmp_path, look, grader).report
    assert report is not None
    lines = [line.split(" ", 1) for line in report.results[0].printed.splitlines() if line[0] in "01"]
    first = dict(reversed([(folder, int(files)) for files, folder in lines]))
    assert len(first) > 1
    assert set(first.values()) == {0}
    assert all(folder.startswith("/tmp/") for folder in first)


def test_a_submission_cannot_change_its_own_file_between_exercises(tmp_path: Path, grader: Grader) -> None:
    rewrite = "import os\nfile = '/tmp/exercises.py'\nopen('/tmp/new', 'w').close()\nos.replace('/tmp/new', file)"
    report = grade_with_train_step(tmp_path, rewrite, grader).report
    assert report is not None
    assert "Device or resource busy" in report.results[0].text
    assert report.by_exercise()["evaluate"] == exercises_of(LAB)[1].points


def test_processes_of_one_submission_share_their_memory_limit(tmp_path: Path, grader: Grader) -> None:
    forks = (
        "import os, time\n"
        "for _ in range(8):\n"
        "    if os.fork() == 0:\n"
        "        data = bytearray(100 * 2**20)\n"
        "        time.sleep(60)\n"
        "time.sleep(60)"
    )
    grader.settings = replace(grader.settings, memory=512)
    report = grade_with_train_step(tmp_path, forks, grader).report
    assert report is not None
    first = report.results[0]
    assert (first.status, first.text) == ("oom", "it took more than 512 MiB of memory")
    assert report.by_exercise()["evaluate"] == exercises_of(LAB)[1].points


@pytest.mark.prove
def test_a_sandbox_server_that_dies_is_started_again(grader: Grader) -> None:
    before = grader.grade(handed_in(LAB.reference))
    for process in psutil.Process().children(recursive=True):
        if "rankzero.grading.sandbox.sandbox_server" in " ".join(process.cmdline()):
            process.send_signal(signal.SIGKILL)
    after = grader.grade(handed_in(LAB.reference))
    assert after.verdict() == before.verdict()
    assert after.gradable


def test_without_a_sandbox_no_submission_gets_a_grade(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared_grader: Grader
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(UserError, match=r"No permissions to create a new namespace.*--trusted"):
        sandbox_client.require_sandbox()
    with Grader(GradingSettings(("02",), SeedPool(fixed=(1,))), shared_grader.trusted_client) as grader:
        grade = grader.grade(handed_in(LAB.reference))
    assert (grade.gradable, grade.points) == (False, 0)
    assert "No permissions" in grade.trouble
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(UserError, match="sudo apt-get install bubblewrap"):
        sandbox_client.require_sandbox()


@pytest.mark.prove
def test_a_trusted_submission_that_kills_its_probe_server_changes_no_other_grade(tmp_path: Path) -> None:
    source = LAB.reference.read_text()
    file = tmp_path / "exercises.py"
    file.write_text(f"import os\nos.kill(os.getppid(), 9)\n{source}")
    with Grader(GradingSettings(("02",), SeedPool(fixed=(11,)), trusted=True)) as grader:
        killer, after = grader.grade(handed_in(file)), grader.grade(handed_in(LAB.reference))
    assert not killer.gradable
    assert "ended with exit code -9" in killer.trouble
    assert (after.points, after.gradable, after.isolation) == (50, True, "trusted")
