"""Attacks: each file of the corpus gets its honest points, and harms neither other submissions nor the machine."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from sandboxes import needs_sandbox

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.exercises.probes.supervisor import _ReplyLines, run_supervised
from rankzero.grading.attack_corpus import Attack, attack_failure, attacks, recorded_answers
from rankzero.grading.canaries import Canaries
from rankzero.grading.grade import Grade, Student, Submission
from rankzero.grading.grader import Grader, GradingSettings
from rankzero.grading.seed_pool import SeedPool

# The first attack with unexpected answers is compared with all known mistakes, which takes long in a lab with ranks.
pytestmark = [needs_sandbox(), pytest.mark.timeout(600)]

# One attack per defense of the table in handbook/for-instructors.md; `make prove` runs all of them.
SAMPLE = {
    "exit_in_a_function",
    "patch_torch",
    "forged_verdict",
    "forged_arrays",
    "looks_for_answers",
    "network",
    "daemon",
    "escapes",
    "memory_at_once",
    "kills_everyone",
    "lab-02/kept_beside_the_file",
}
LAB = find_lab("02")
LONG_S = 200.0  # a killed process ends sooner
GROWTH = 32 * 2**20  # bytes that a warm sandbox server may grow while it grades all attacks


def corpus() -> Iterator[Any]:
    """Yields the attacks as parameters: the sample for `make test`, the other attacks for `make prove`."""
    for attack in attacks():
        yield pytest.param(attack, id=attack.name, marks=() if attack.name in SAMPLE else pytest.mark.prove)


class Scene:
    """The shared grader, which grades attacks and an honest neighbor in turn; the neighbor has solved one exercise."""

    def __init__(self, grader: Grader, canaries: Canaries, folder: Path) -> None:
        self.grader, self.canaries, self._settings = grader, canaries, grader.settings
        self._file = folder / "exercises.py"
        self.reference = self.graded(LAB.reference.read_bytes()).verdict()
        source = LAB.reference.read_text()
        written = source[source.index("def learning_rate") : source.index("def overfit_one_batch")]
        self.halfway = f"{LAB.stubs.read_text()}\n\n{written}".encode()
        self.neighbor = self.graded(self.halfway).verdict()
        self.processes = self.running()
        self.size = self.resident()

    def graded(self, source: bytes, lab: str = "02", **settings: Any) -> Grade:
        self._file.write_bytes(source)
        self.grader.settings = replace(self._settings, **settings)
        return self.grader.grade(Submission(Student("ada"), lab, self._file))

    def attacked(self, attack: Attack) -> Grade:
        client = self.grader.trusted_client
        answers = recorded_answers(find_lab(attack.lab), 12, client) if attack.records else None
        source = attack.source(answers, **self.canaries.places)
        return self.graded(source, attack.lab, time_limit=attack.seconds, memory=attack.memory)

    def running(self) -> set[int]:
        return {process.pid for process in psutil.Process().children(recursive=True)}

    def left(self) -> set[int]:
        """Waits for the end of the processes that an attack has started, and returns those that do not end."""
        new = [psutil.Process(pid) for pid in self.running() - self.processes if psutil.pid_exists(pid)]
        psutil.wait_procs(new, timeout=LONG_S)
        return self.running() ^ self.processes

    def resident(self) -> int:
        """Returns the resident bytes of the processes of the sandbox server."""
        children = psutil.Process().children(recursive=True)
        return sum(process.memory_info().rss for process in children if is_sandbox(process))


def is_sandbox(process: psutil.Process) -> bool:
    return "rankzero.grading.sandbox.sandbox_server" in process.cmdline()


@pytest.fixture(scope="module")
def scene(shared_grader: Grader, canaries: Canaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    settings = shared_grader.settings
    yield Scene(shared_grader, canaries, tmp_path_factory.mktemp("attacks"))
    shared_grader.settings = settings


@pytest.mark.prove  # test_grading_sandbox.py grades them too, without a canary
@pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.number)
def test_a_reference_gets_all_points_in_the_sandbox_too(lab: Lab, scene: Scene) -> None:
    """A probe may need what the sandbox refuses, such as shared memory without a file."""
    report = scene.graded(lab.reference.read_bytes(), lab.number).report
    assert report
    assert [(result.check, result.text) for result in report.results if result.status != "pass"] == []


@pytest.mark.parametrize("attack", list(corpus()))
def test_an_attack_gets_its_honest_points_and_harms_no_other_submission(attack: Attack, scene: Scene) -> None:
    grade = scene.attacked(attack)
    assert attack_failure(attack, grade) == ""
    assert scene.canaries.touched() == []
    assert scene.left() == set(), "a process is left, or the sandbox had to be started again"
    if not attack.changes and attack.name not in SAMPLE:
        assert scene.attacked(attack).verdict() == grade.verdict()
    assert scene.graded(scene.halfway).verdict() == scene.neighbor


def test_after_all_attacks_the_sandbox_still_grades_and_has_not_grown(scene: Scene) -> None:
    assert scene.graded(LAB.reference.read_bytes()).verdict() == scene.reference
    assert scene.resident() < scene.size + GROWTH


def test_the_corpus_has_attacks_on_several_labs() -> None:
    assert len(attacks()) >= 40
    assert len({attack.lab for attack in attacks()}) >= 4
    assert {attack.lab for attack in attacks()} <= {lab.number for lab in all_labs()}


def test_a_sandbox_that_is_killed_during_a_submission_is_opened_again(scene: Scene) -> None:
    def kill_once(check: str) -> None:
        if check == "evaluate/mode" and not killed:
            children = psutil.Process().children(recursive=True)
            supervisor = next(process for process in children[::-1] if is_sandbox(process))
            supervisor.send_signal(signal.SIGKILL)
            killed.append(supervisor.pid)

    killed: list[int] = []
    submission = Submission(Student("ada"), "02", LAB.reference)
    scene.grader.settings = replace(scene.grader.settings, pool=SeedPool(fixed=(11, 12)))
    grade = scene.grader.grade(submission, progress=kill_once)
    assert killed
    assert grade.points == grade.max_points


def test_a_sandbox_that_is_killed_whenever_it_opens_is_nobodys_zero(scene: Scene) -> None:
    def kill(check: str) -> None:
        for process in filter(is_sandbox, psutil.Process().children(recursive=True)):
            process.send_signal(signal.SIGKILL)

    grade = scene.grader.grade(Submission(Student("ada"), "02", LAB.reference), progress=kill)
    assert not grade.gradable
    assert grade.report is None
    assert scene.graded(LAB.reference.read_bytes()).verdict() == scene.reference


def test_a_submission_that_makes_the_grader_fail_gets_no_grade(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise IndexError("list index out of range")

    with monkeypatch.context() as patched:
        patched.setattr("rankzero.grading.grader.check_on_seeds", fail)
        grade = scene.graded(b"")
    assert grade.trouble == "the grader itself failed (IndexError: list index out of range)"
    assert scene.graded(scene.halfway).verdict() == scene.neighbor


def test_probes_that_cannot_be_imported_are_trouble_of_the_grader(tmp_path: Path) -> None:
    broken = tmp_path / "probes.py"
    broken.write_text("import no_such_module\n")
    request = {
        "file": str(LAB.reference),
        "probes_file": str(broken),
        "functions": [],
        "probes": [("a", 1)],
        "seconds": 60.0,
    }
    assert "no_such_module" in run_supervised(request, close_fds=())["trouble"]


@pytest.mark.prove
def test_a_fork_bomb_beside_it_takes_nothing_from_an_honest_submission(scene: Scene, tmp_path: Path) -> None:
    bomb = next(attack for attack in attacks() if attack.name == "fork_bomb")
    file = tmp_path / "exercises.py"
    file.write_bytes(bomb.source(None, **scene.canaries.places))
    hostile = Submission(Student("eve"), "02", file)

    def attack() -> None:
        with Grader(
            GradingSettings(("02",), SeedPool(fixed=(11,)), time_limit=30), scene.grader.trusted_client
        ) as grader:
            grader.grade(hostile)

    thread = threading.Thread(target=attack)
    thread.start()
    while thread.is_alive():
        assert scene.graded(LAB.reference.read_bytes()).verdict() == scene.reference
    thread.join()


def test_reply_lines_end_when_the_writer_is_closed() -> None:
    reader, writer = os.pipe()
    with _ReplyLines(reader, b"token") as lines:
        assert lines.read()
        os.close(writer)
        assert not lines.read()
