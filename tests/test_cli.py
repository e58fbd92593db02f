"""The command line as a person meets it."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from rankzero.cli import app as cli
from rankzero.cli.__main__ import main
from rankzero.curriculum import ROOT
from rankzero.learn.machine import doctor as machine
from rankzero.learn.machine.doctor import Finding

runner = CliRunner()


def run(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(cli.app, list(arguments))
    return result.exit_code, result.output


def test_help_lists_the_commands_and_says_how_to_start() -> None:
    code, output = run("--help")
    assert code == 0
    for word in ("doctor", "list", "run", "sync", "rankzero run 02", "rankzero start 02"):
        assert word in " ".join(output.split())


def test_list_shows_the_labs_and_as_json() -> None:
    assert "Single-GPU training loop" in run("list")[1].replace("\n", " ")
    (lab,) = [lab for lab in json.loads(run("list", "--json")[1]) if lab["number"] == "02"]
    assert lab["minutes"] > 0


def test_doctor_speaks_of_this_machine() -> None:
    code, output = run("doctor", "--json")
    findings = {finding["subject"]: finding for finding in json.loads(output)}
    assert set(findings) == {
        "Python",
        "libraries",
        "torchvision",
        "CPU",
        "GPU",
        "ranks",
        "C++ compiler",
        "git",
        "sandbox",
    }
    assert findings["libraries"]["verdict"] == "ok", findings["libraries"]
    assert findings["torchvision"]["verdict"] in ("ok", "limit")
    assert code == int(any(finding["verdict"] == "problem" for finding in findings.values()))
    assert re.search(r"This machine can run lab [\d, ]*02", run("doctor")[1])


def test_doctor_exits_1_when_something_will_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [Finding("torchvision", "problem", "does not [load]"), Finding("GPU", "limit", "none")]
    monkeypatch.setattr(machine, "examine", lambda: findings)
    code, output = run("doctor")
    assert code == 1
    assert "problem torchvision: does not [load]" in output


def test_doctor_names_a_torchvision_that_cannot_be_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ImportError("No module named 'torchvision'")

    monkeypatch.setattr(machine, "import_torchvision", fail)
    finding = machine._torchvision()
    assert finding.verdict == "problem"
    assert "pip install -r requirements.txt" in finding.text


def test_doctor_names_ranks_that_cannot_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "have just exchanged a message over gloo" in machine._ranks().text
    monkeypatch.setattr(machine, "_all_reduce", lambda: sys.exit("no network"))
    finding = machine._ranks()
    assert finding.verdict == "problem"
    assert "cannot talk to each other over gloo" in finding.text
    assert "no network" in finding.text


def test_doctor_names_a_version_that_is_not_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["torch==9.9.9", "nosuchthing==1.0", "numpy>=1"])
    (finding,) = machine._libraries()
    assert finding.verdict == "limit"
    assert "tested with 9.9.9; nosuchthing is missing" in finding.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "99"], "rankzero: there is no lab '99': the labs are"),
        (["run", "x"], "rankzero: there is no lab 'x'"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(arguments: list[str], said: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert said in output
    assert "Traceback" not in output


def test_run_passes_options_on_and_says_what_to_open_next(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rankzero.cli", "run", "02", "--steps", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "steps 1 to 2" in done.stdout
    assert done.stdout.index("Open next") > done.stdout.index("step     2/2")
    for page in ("labs/lab-02-single-gpu-training.md", "notebooks/lab-02-single-gpu-training.ipynb"):
        assert page in done.stdout
        assert (ROOT / page).exists()


def test_run_keeps_the_starters_exit_code() -> None:
    command = [sys.executable, "-m", "rankzero.cli", "run", "02", "--steps", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "Open next" not in done.stdout
    assert done.stderr.count("\n") == 1


def test_ctrl_c_during_the_imports_gives_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "rankzero.cli.app", Interrupted("rankzero.cli.app"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert signal.signal(signal.SIGINT, signal.default_int_handler) == signal.SIG_DFL  # for the clean-up
    assert ended.value.code == 130


def test_ctrl_c_reaches_the_starter_and_waits_for_it_to_save(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rankzero.cli", "run", "02", "--steps", "100000", "--batch-size", "64"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # a process group of its own, as a shell gives to a command
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("step     1/"):
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    rest = process.communicate(timeout=100)[0]
    assert process.returncode == 130
    assert "Stopped by Ctrl-C after step" in rest
    assert "Open next" not in rest
    assert (tmp_path / "lab-02-001" / "checkpoint.pt").is_file()


def test_a_terminal_gets_a_progress_bar(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "rankzero.cli", "run", "02", "--steps", "30", "--out", str(tmp_path)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=follower, stderr=follower, stdin=follower, env=environment)
    os.close(follower)
    screen = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # the other side has closed
            break
        if not chunk:
            break
        screen += chunk
    os.close(leader)
    assert process.wait(timeout=120) == 0
    assert b"\x1b[" in screen
    assert "━".encode() in screen
    assert b"step    30/30  loss" in screen
