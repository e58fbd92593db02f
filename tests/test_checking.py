"""What happens when a learner's file misbehaves, and what the commands say about it."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rankzero import cli
from rankzero.curriculum import find_lab
from rankzero.exercises.answers import AnswerError, decode, encode, equal
from rankzero.exercises.runner import Report, Worker, check_file, exercises_of
from rankzero.publish.stubs import StubError, stub

LAB = find_lab("02")
EXERCISES = exercises_of(LAB)
runner = CliRunner()


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as running:
        yield running


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKZERO_PROGRESS", str(tmp_path / "state" / "progress.json"))


def with_step(tmp_path: Path, body: str, top: str = "") -> Path:
    """The reference, with another train_step."""
    source = LAB.reference.read_text()
    start, end = source.index("def train_step"), source.index("def evaluate")
    file = tmp_path / "exercises.py"
    file.write_text(f"{source[:start]}{top}\n\ndef train_step(model, optimizer, x, y):\n{body}\n\n\n{source[end:]}")
    return file


def check(file: Path, worker: Worker, *names: str) -> Report:
    worker.forget(file)
    chosen = tuple(exercise for exercise in EXERCISES if not names or exercise.name in names)
    return check_file(LAB, file, chosen, seed=3, worker=worker)


BAD = {
    "exit": ("    raise SystemExit(0)", "error", r"exercises.py, line \d+: called sys.exit\(\)"),
    "os._exit": ("    import os; os._exit(0)", "killed", "the process ended without an answer"),
    "crash": ("    import ctypes; ctypes.string_at(0)", "killed", "the process ended by signal SIGSEGV"),
    "exception": ("    return 1 / 0", "error", r"exercises.py, line \d+: ZeroDivisionError: division by zero"),
    "none": ("    return None", "fail", "what came back is of type NoneType; the loss, a Python float, was expected"),
    "nan": ("    return float('nan')", "fail", "the loss is nan; expected"),
    "memory": ("    import torch; torch.ones(10 * 2**30 // 4)", "oom", "memory"),
    "recursion": ("    return train_step(model, optimizer, x, y)", "error", "RecursionError"),
    "undefined": ("    return losss", "error", "NameError: name 'losss' is not defined"),
    "string": ("    return 'low'", "fail", "of type str"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_function_that_misbehaves_costs_its_own_checks_only(tmp_path: Path, worker: Worker, name: str) -> None:
    body, status, said = BAD[name]
    report = check(with_step(tmp_path, body), worker, "train_step", "evaluate", "learning_rate")
    first = report.results[0]
    assert first.status == status
    assert re.search(said, first.text), first.text
    assert all(result.status == "pass" for result in report.results if result.exercise != "train_step")


def test_an_endless_loop_is_stopped(tmp_path: Path, worker: Worker) -> None:
    quick = tuple(
        type(e)(**{**vars(e), "checks": tuple(type(c)(**{**vars(c), "seconds": 1.0}) for c in e.checks)})
        for e in EXERCISES
        if e.name == "train_step"
    )
    started = time.monotonic()
    report = check_file(LAB, with_step(tmp_path, "    while True: pass"), quick, seed=3, worker=worker)
    assert [result.status for result in report.results] == ["timeout", "timeout", "skipped", "skipped", "skipped"]
    assert "no answer after 1 s" in report.results[0].text
    assert time.monotonic() - started < 30
    assert check(LAB.reference, worker).points == 50, "the worker lives on"


def test_a_flood_of_prints_is_cut_and_the_verdict_stands(tmp_path: Path, worker: Worker) -> None:
    source = LAB.reference.read_text().replace(
        "    optimizer.zero_grad(set_to_none=True)\n",
        "    print('x' * 200_000_000)\n    optimizer.zero_grad(set_to_none=True)\n",
    )
    (tmp_path / "exercises.py").write_text(source)
    report = check(tmp_path / "exercises.py", worker, "train_step")
    assert all(result.status == "pass" for result in report.results)
    assert report.results[0].printed.startswith("xxx")
    assert len(report.results[0].printed) <= 4096


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def train_step(:\n", r"exercises.py, line 1: invalid syntax"),
        ("import math\nimport nosuchmodule\n", r"exercises.py, line 2: ModuleNotFoundError: No module named 'nosuch"),
        ("raise SystemExit\n", r"exercises.py, line 1: called sys.exit\(\)"),
        ("x = 1\n\x00", "null byte"),
        ("", "AttributeError: module 'exercises' has no attribute 'train_step'"),
    ],
)
def test_a_file_that_does_not_load_says_where(tmp_path: Path, worker: Worker, text: str, said: str) -> None:
    file = tmp_path / "exercises.py"
    file.write_text(text)
    report = check(file, worker, "train_step")
    assert report.results[0].status == "error"
    assert re.search(said, report.results[0].text), report.results[0].text
    assert report.points == 0


def test_the_file_is_imported_afresh(tmp_path: Path, worker: Worker) -> None:
    file = with_step(tmp_path, "    return None")
    assert check(file, worker, "train_step").points == 0
    file.write_text(LAB.reference.read_text())
    assert check(file, worker, "train_step").points == 10


def test_one_seed_one_report_and_another_seed_other_inputs(tmp_path: Path, worker: Worker) -> None:
    file = with_step(tmp_path, "    return 0.0")
    texts = [check_file(LAB, file, EXERCISES[:1], seed=seed, worker=worker).results[0].text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert re.fullmatch(r"the loss is 0.000000; expected \d\.\d{6}\.", texts[0])


def test_code_that_cheats_by_patching_torch_gains_nothing(tmp_path: Path, worker: Worker) -> None:
    top = "torch.equal = torch.allclose = lambda *a, **k: True\nclass Any(float):\n    __eq__ = lambda a, b: True"
    report = check(with_step(tmp_path, "    return Any(1.0)", top), worker, "train_step")
    assert report.points == 0


def test_answers_survive_the_wire_and_nothing_else_does() -> None:
    answers = {"a": None, "b": True, "c": 1, "d": float("inf"), "e": "x", "f": [1.5, None], "g": np.eye(2)}
    back = decode(encode(answers))
    assert all(equal(back[name], value) for name, value in answers.items())
    with pytest.raises(TypeError):
        encode({"a": object()})
    with pytest.raises(TypeError):
        encode({"a": np.array([object()])})
    evil = b'{"a": {"npy": "gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjA10b3VjaCAvdG1wL3ptlIWUUpQu"}}'
    for data in (b"", b"[]", b"{", b'{"a": {"npy": 3}}', b'{"a": {}}', evil, b'{"a": ' + b"[" * 100_000):
        with pytest.raises(AnswerError):
            decode(data)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.001, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True),
        (True, 1, False),
        ("1", 1, False),
        (None, 0, False),
        (np.zeros(3), np.zeros(4), False),
        (np.zeros(3), [0, 0, 0], False),
        ([1.0, 2.0], [1.0, 2.0 + 1e-12], True),
    ],
)
def test_answers_are_compared_as_what_they_are(one: object, other: object, same: bool) -> None:
    assert equal(one, other, 1e-9) is same


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f():\n    ### BEGIN SOLUTION\n    pass\n", r"a.py, line 2: ### BEGIN SOLUTION is not closed"),
        ("def f():\n    ### BEGIN SOLUTION\n    ### BEGIN SOLUTION\n    x\n", r"a.py, line 3: a second .* line 2, is"),
        ("def f(:\n", r"a.py, line 1: invalid syntax"),
        ("def f():\n    pass\n    ### END SOLUTION\n", r"a.py, line 3: ### END SOLUTION without"),
        ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n", r"a.py, line 1: .* is not inside a function"),
        ("def f():\n    # BEGIN SOLUTION\n    pass\n", r"a.py, line 2: a marker must be a line of its own"),
    ],
)
def test_malformed_markers_name_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    with pytest.raises(StubError, match=said):
        stub(file, "02")


def run(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(cli.app, list(arguments))
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_a_learner_starts_fails_asks_passes_and_sees_it(tmp_path: Path) -> None:
    assert run("check", "02")[0] == 2
    assert "rankzero start 02" in run("check", "02")[1].replace("\n", " ")
    assert "not started" in run("status")[1]
    code, output = run("start", "02", "--folder", str(tmp_path / "my work"))
    assert code == 0
    file = tmp_path / "my work" / "lab-02" / "exercises.py"
    assert file.read_bytes() == LAB.stubs.read_bytes()
    code, output = run("check", "02", "learning_rate")
    assert code == 1
    assert "learning_rate is not written yet" in output
    assert "hint 1 of 3" in run("hint", "02", "learning_rate")[1]
    assert "hint 2 of 3" in run("hint", "02", "learning_rate")[1]
    file.write_text(LAB.reference.read_text())
    code, output = run("check", "02", "learning_rate", "--seed", "7")
    assert code == 0
    assert "10 of 10 points   seed 7" in output
    assert "10 of 50 points" in run("status")[1]
    assert json.loads(run("status", "--json")[1])["02"]["points"] == {"learning_rate": 10}
    report = json.loads(run("check", "02", "--json")[1])
    assert (report["points"], report["max_points"]) == (50, 50)
    assert "50 of 50 points" in run("status")[1]


def test_start_never_touches_work_and_reset_keeps_it(tmp_path: Path) -> None:
    run("start", "02", "--folder", str(tmp_path))
    file = tmp_path / "lab-02" / "exercises.py"
    file.write_text("mine = 1\n")
    assert "nothing was changed" in run("start", "02", "--folder", str(tmp_path))[1]
    assert file.read_text() == "mine = 1\n"
    refused = runner.invoke(cli.app, ["reset", "02"], input="n\n")
    assert "Nothing was changed" in refused.output
    assert file.read_text() == "mine = 1\n"
    accepted = runner.invoke(cli.app, ["reset", "02"], input="y\n")
    assert accepted.exit_code == 0
    assert file.read_bytes() == LAB.stubs.read_bytes()
    file.write_text("mine = 2\n")
    assert run("reset", "02", "--yes")[0] == 0
    assert [(tmp_path / "lab-02" / f"exercises.backup-{n}.py").read_text() for n in (1, 2)] == [
        "mine = 1\n",
        "mine = 2\n",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "77"], "there is no lab '77'"),
        (["check", "02", "nonsense"], "lab 02 has no exercise 'nonsense': it has train_step, evaluate"),
        (["check", "02", "--file", "/nowhere/x.py"], "/nowhere/x.py does not exist"),
        (["hint", "02", "nonsense"], "has no exercise 'nonsense'"),
        (["start", "02", "--folder", "/dev/null/x"], "cannot write /dev/null/x/lab-02/exercises.py"),
        (["reset", "02"], "lab 02 is not started yet"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], said: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert said in output


def test_a_damaged_progress_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "progress.json").write_text("{")
    code, output = run("status")
    assert code == 2
    assert "progress.json cannot be read" in output


def test_a_report_is_narrow_and_has_no_escape_codes_in_a_file(tmp_path: Path) -> None:
    file = with_step(tmp_path, "    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())\n    return loss")
    command = [sys.executable, "-m", "rankzero.cli", "check", "02", "--file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if "seed" not in line) <= 80
    assert "which keeps this step's graph alive" in " ".join(done.stdout.split())


def test_watch_checks_again_on_save_and_q_ends_it(tmp_path: Path) -> None:
    file = with_step(tmp_path, "    return None")
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "rankzero.cli", "watch", "02", "train_step", "--file", str(file)]
    environment = {**os.environ, "TERM": "dumb"}
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
    os.close(follower)

    def until(text: str) -> str:
        screen = ""
        while text not in screen:
            screen += os.read(leader, 4096).decode(errors="replace")
        return screen

    assert "0 of 10 points" in until("q quit")
    os.write(leader, b"h")
    until("hint 1 of 3")
    file.write_text(LAB.reference.read_text())
    assert "10 of 10 points" in until("q quit")
    os.write(leader, b"q")
    assert process.wait(timeout=30) == 0
    os.close(leader)
