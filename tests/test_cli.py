"""Command line: help, list, doctor and run, their messages and exit codes."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from warm_process import cold_starts

from rankzero.cli import app as cli
from rankzero.cli.child_program import run_to_end
from rankzero.cli.terminal import console
from rankzero.curriculum import ROOT, all_labs, find_lab
from rankzero.learn.machine import doctor as machine
from rankzero.learn.machine.doctor import Finding
from rankzero.learn.runs.training_options import start_again

runner = CliRunner()
STARTER = find_lab("02").starter


def run(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(cli.app, list(arguments))
    return result.exit_code, result.output


def on_terminal(*arguments: str, columns: int = 100) -> tuple[int, bytes]:
    """Returns the exit code of a command, and all that it writes to its terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "rankzero.cli", *arguments]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": f"{columns}"}
    with cold_starts():
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
    return process.wait(timeout=300), screen


def test_help_lists_the_commands_and_the_first_commands_to_type() -> None:
    code, output = run("--help")
    assert code == 0
    for word in ("doctor", "list", "run", "sync", "rankzero run 02", "rankzero start 02"):
        assert word in " ".join(output.split())


def test_help_lists_what_learners_need_first_and_each_command_on_a_line() -> None:
    lines = run("--help")[1].splitlines()
    panels = [name for line in lines for name in re.findall(r"─ (\w[\w ]+) ─", line)]
    assert panels == ["Options", "Learn", "This machine", "Grade a class", "Write labs and pages"]
    rows = [line.split()[1] for line in lines if re.match(r"│ [a-z]", line)]
    assert rows[0] == "list"
    assert {"start", "grade", "verify-lab"} < set(rows)
    assert not [line for line in lines if re.match(r"│ {4}", line)], "a description takes two lines"


def test_help_of_run_names_its_options_and_where_the_starters_are() -> None:
    code, output = run("run", "--help")
    assert code == 0
    assert max(map(len, output.splitlines())) <= 80
    words = " ".join(output.split())
    for part in ("Usage: rankzero run", "NUMBER", "--mine", "--file", "`rankzero run 02 --help` lists them"):
        assert part in words
    assert "<bool>" not in words + run("grade", "--help")[1] + run("--help")[1], "a flag takes no value"


def test_list_shows_the_labs_as_text_and_as_json() -> None:
    assert "Single-GPU training loop" in run("list")[1].replace("\n", " ")
    (lab,) = [lab for lab in json.loads(run("list", "--json")[1]) if lab["number"] == "02"]
    assert lab["minutes"] > 0


def test_list_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 80)
    lines = run("list")[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 4 * len(all_labs(drafts=True)) + 1


@pytest.mark.prove
def test_doctor_says_what_it_does_while_it_examines() -> None:
    code, screen = on_terminal("doctor")
    assert code == 0
    assert screen.index(b"examining this machine") < screen.index(b"libraries")


def test_doctor_examines_this_machine() -> None:
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


def test_doctor_exits_with_1_for_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [Finding("torchvision", "problem", "does not [load]"), Finding("GPU", "limit", "none")]
    monkeypatch.setattr(machine, "examine", lambda: findings)
    code, output = run("doctor")
    assert code == 1
    assert "problem torchvision: does not [load]" in output


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ModuleNotFoundError("No module named 'torchvision'", name="torchvision"), "limit"),
        (ImportError("undefined symbol"), "problem"),
    ],
)
def test_doctor_reports_a_torchvision_that_is_missing_or_broken(
    error: ImportError, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(machine, "import_torchvision", fail)
    finding = machine._torchvision()
    assert finding.verdict == verdict
    assert "pip install -r requirements.txt" in finding.text


@pytest.mark.parametrize("command", [["new-lab", "98", "trial"], ["sync", "--check"]])
def test_a_command_for_authors_names_the_package_that_is_missing(command: list[str], tmp_path: Path) -> None:
    """As after `make lab-02`, which installs only what a learner needs."""
    for package in ("nbformat", "jupytext", "nbclient", "sphinx"):
        (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('none', name={package!r})")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with cold_starts():
        done = subprocess.run(
            [sys.executable, "-m", "rankzero.cli", *command],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
    assert done.returncode == 2
    assert re.search(r"^rankzero: this command needs \w+, which `pip install -r requirements.txt` or", done.stderr)
    assert "Traceback" not in done.stderr


def test_doctor_reports_ranks_that_cannot_communicate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "have just exchanged a message over gloo" in machine._ranks().text
    monkeypatch.setattr(machine, "_all_reduce", lambda: sys.exit("no network"))
    finding = machine._ranks()
    assert finding.verdict == "problem"
    assert "cannot communicate over gloo" in finding.text
    assert "no network" in finding.text


def test_doctor_reports_a_version_that_differs_from_the_pinned_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["torch==9.9.9", "nosuchthing==1.0", "numpy>=1"])
    (finding,) = machine._libraries()
    assert finding.verdict == "limit"
    assert "tested with 9.9.9; nosuchthing is missing" in finding.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "99"], "rankzero: there is no lab '99': the labs are"),
        (["run", "x"], "rankzero: there is no lab 'x'"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_a_mistake_gets_a_sentence_and_exit_code_2(arguments: list[str], message: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert message in output
    assert "Traceback" not in output


def test_an_error_breaks_between_words_on_a_terminal() -> None:
    _, screen = on_terminal("hint", "02", "nonsense", columns=40)
    text = re.sub(r"\x1b\[[\d;]*m", "", screen.decode())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(text.split()).startswith("rankzero: lab 02 has no exercise 'nonsense': it has train_step, ")
    assert run("hint", "02", "nonsense")[1].count("\n") == 1, "elsewhere it is one line, for programs"


def test_run_passes_options_to_the_starter_and_names_the_pages_to_open_next(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rankzero.cli", "run", "02", "--steps", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "steps 1 to 2" in done.stdout
    assert done.stdout.index("Open next") > done.stdout.index("step     2/2")
    assert "go on                 rankzero run 02 --resume" in done.stdout
    for page in ("labs/lab-02-single-gpu-training.md", "notebooks/lab-02-single-gpu-training.ipynb"):
        assert page in done.stdout
        assert (ROOT / page).exists()


def test_a_run_says_how_to_go_on_in_the_words_that_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make lab-02` leaves .venv inactive: there, `python` finds no torch and the shell finds no `rankzero`."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", "/nowhere")
    assert cli._as_typed(".venv/bin/rankzero") == ".venv/bin/rankzero"
    assert cli._as_typed(str(ROOT / "code/rankzero/cli/__main__.py")) == "rankzero"
    monkeypatch.setattr(shutil, "which", lambda name: f"/venv/bin/{name}")
    assert cli._as_typed("/venv/bin/rankzero") == "rankzero"
    monkeypatch.setenv("RANKZERO_RUN", ".venv/bin/rankzero run 02")
    assert start_again(str(STARTER)) == [".venv/bin/rankzero", "run", "02"]
    monkeypatch.delenv("RANKZERO_RUN")
    assert start_again(str(STARTER)) == ["python", "code/lab-02-single-gpu-training/train_single_gpu.py"]


@pytest.mark.prove
def test_run_ends_with_the_starters_exit_code() -> None:
    command = [sys.executable, "-m", "rankzero.cli", "run", "02", "--steps", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "Open next" not in done.stdout
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_a_signal_ended_has_the_exit_code_of_a_shell(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "ends.py"
    script.write_text(f"import os\nos.kill(os.getpid(), {number:d})\n")
    handlers = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    with cold_starts():
        assert run_to_end(script, [], os.environ) == 128 + number
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == handlers
    assert f"the program was ended by {number.name}" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.timeout(900)
def test_ctrl_c_makes_the_starter_save_before_the_command_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rankzero.cli", "run", "02", "--steps", "100000", "--batch-size", "64"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with cold_starts():
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # a new process group, as in a shell
        )
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("step     1/"):
        assert line, process.communicate()
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 130
    assert "Stopped by Ctrl-C after step" in output
    assert "Open next" not in output
    assert (tmp_path / "lab-02-001" / "checkpoint.pt").is_file()


@pytest.mark.prove
@pytest.mark.real
@pytest.mark.timeout(900)
def test_sigterm_to_the_command_reaches_the_starter(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "rankzero.cli", "run", "02", "--steps", "100000", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with cold_starts():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("step     1/"):
        assert line, process.communicate()
    process.terminate()
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 143
    assert "Stopped by SIGTERM after step" in output
    assert (tmp_path / "lab-02-001" / "checkpoint.pt").is_file()


@pytest.mark.prove
def test_a_terminal_gets_a_progress_bar(tmp_path: Path) -> None:
    code, screen = on_terminal("run", "02", "--steps", "30", "--out", str(tmp_path))
    assert code == 0
    assert b"\x1b[" in screen
    assert "━".encode() in screen
    assert b"step    30/30  loss" in screen
