"""Commands for exercises: start, check, watch, hint, status, reset."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rankzero.cli import app as cli
from rankzero.curriculum import find_lab

LAB = find_lab("02")
runner = CliRunner()


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKZERO_PROGRESS", str(tmp_path / "state" / "progress.json"))


def run(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(cli.app, list(arguments))
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_start_check_hint_and_status_work_together(tmp_path: Path) -> None:
    assert run("check", "02")[0] == 2
    assert "rankzero start 02" in run("check", "02")[1].replace("\n", " ")
    assert "not started" in run("status")[1]
    code, output = run("start", "02", "--folder", str(tmp_path / "my work"))
    assert code == 0
    file = tmp_path / "my work" / "lab-02" / "exercises.py"
    assert file.read_bytes() == LAB.stubs.read_bytes()
    code, output = run("check", "02", "learning_rate")
    assert code == 1
    assert re.search(r"Next: write learning_rate, line \d+ of exercises.py\nA hint: rankzero hint 02 learn", output)
    assert "Read handbook/learning-rate-and-schedules.md" in output
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


def test_start_never_changes_work_and_reset_keeps_a_backup(tmp_path: Path) -> None:
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
    ("arguments", "message"),
    [
        (["check", "77"], "there is no lab '77'"),
        (["check", "02", "nonsense"], "lab 02 has no exercise 'nonsense': it has train_step, evaluate"),
        (["check", "02", "--file", "/nowhere/x.py"], "/nowhere/x.py does not exist"),
        (["hint", "02", "nonsense"], "has no exercise 'nonsense'"),
        (["start", "02", "--folder", "/dev/null/x"], "cannot write /dev/null/x/lab-02/exercises.py"),
        (["reset", "02"], "lab 02 is not started yet"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments: list[str], message: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert message in output


def test_a_damaged_progress_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "progress.json").write_text("{")
    code, output = run("status")
    assert code == 2
    assert "progress.json cannot be read" in output


def test_start_in_another_folder_finds_the_existing_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    copy = tmp_path / "one" / "work" / "lab-02" / "exercises.py"
    assert f"Made {copy}" in run("start", "02")[1]
    run("hint", "02", "evaluate")
    copy.write_text(LAB.reference.read_text())
    assert run("check", "02", "learning_rate")[0] == 0
    monkeypatch.chdir(tmp_path / "two")
    assert f"started already; nothing was changed: {copy}" in run("start", "02")[1]
    assert not (tmp_path / "two" / "work").exists()
    output = run("start", "02", "--folder", "here")[1]
    assert f"You now work on this copy; the earlier copy is {copy}" in output
    assert (tmp_path / "two" / "here" / "lab-02" / "exercises.py").exists()
    assert "10 of 50 points" in run("status")[1]
    assert "hint 2 of 3" in run("hint", "02", "evaluate")[1]


def test_a_later_mistake_costs_no_progress(tmp_path: Path) -> None:
    run("start", "02", "--folder", str(tmp_path))
    file = tmp_path / "lab-02" / "exercises.py"
    file.write_text(LAB.reference.read_text())
    output = run("check", "02")[1]
    assert "Lab 02 is done. Next: Break It, in labs/lab-02-single-gpu-training.md" in output
    assert "rankzero run 02 --mine trains with what you wrote." in output
    file.write_text("def train_step(:")
    assert run("check", "02")[0] == 1
    output = run("status")[1]
    assert "50 of 50 points" in output
    assert "0 points when it was last checked" in output


def test_hint_without_a_name_is_for_the_first_unsolved_exercise(tmp_path: Path) -> None:
    run("start", "02", "--folder", str(tmp_path))
    assert "train_step, hint 1 of 3" in run("hint", "02")[1]
    file = tmp_path / "lab-02" / "exercises.py"
    file.write_text(LAB.reference.read_text())
    assert "Next: rankzero watch 02 evaluate" in run("check", "02", "train_step")[1]
    assert "evaluate, hint 1 of 3" in run("hint", "02")[1]
    run("check", "02")
    assert "nothing is left to hint at" in run("hint", "02")[1]


def test_ctrl_c_at_the_prompt_of_reset_gives_exit_code_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    run("start", "02", "--folder", str(tmp_path))
    monkeypatch.setattr("builtins.input", interrupt)
    code, output = run("reset", "02")
    assert (code, "Aborted" in output) == (130, False)
    assert not (tmp_path / "lab-02" / "exercises.backup-1.py").exists()


def test_help_shows_an_optional_name_in_single_brackets() -> None:
    assert "[[" not in run("check", "--help")[1] + run("hint", "--help")[1] + run("claims", "--help")[1]


def file_that_returns_a_tensor(tmp_path: Path) -> Path:
    file = tmp_path / "exercises.py"
    file.write_text(LAB.reference.read_text().replace("return loss.item()", "return loss"))
    return file


def test_a_report_is_narrow_and_has_no_escape_codes_in_a_file(tmp_path: Path) -> None:
    file = file_that_returns_a_tensor(tmp_path)
    command = [sys.executable, "-m", "rankzero.cli", "check", "02", "--file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if "seed" not in line) <= 80
    assert (
        "the loss is of type Tensor (it may hold its graph): .item() makes a float of it; expected a Python float."
        in " ".join(done.stdout.split())
    )


class Screen:
    """A terminal on which a command runs."""

    def __init__(self, *arguments: str) -> None:
        self.leader, follower = pty.openpty()
        termios.tcsetwinsize(follower, (24, 80))
        command = [sys.executable, "-m", "rankzero.cli", *arguments]
        environment = {**os.environ, "TERM": "dumb", "LINES": "24"}
        self.process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
        os.close(follower)

    def press(self, key: str) -> None:
        os.write(self.leader, key.encode())

    def until(self, text: str) -> str:
        """Waits for `text` and returns everything shown up to it."""
        screen = ""
        while text not in screen:
            assert select.select([self.leader], [], [], 60)[0], f"{text!r} did not appear in {screen!r}"
            screen += os.read(self.leader, 4096).decode(errors="replace")
        return screen


@contextmanager
def watching(*arguments: str) -> Iterator[Screen]:
    screen = Screen("watch", "02", *arguments)
    try:
        yield screen
        screen.press("q")
        assert screen.process.wait(timeout=30) == 0
    finally:
        screen.process.kill()
        os.close(screen.leader)


def test_watch_checks_again_on_save_and_q_ends_it(tmp_path: Path) -> None:
    file = file_that_returns_a_tensor(tmp_path)
    with watching("train_step", "--file", str(file)) as screen:
        assert "7 of 10 points" in screen.until("q quit")
        screen.press("h")
        screen.until("hint 1 of 3")
        assert "h hint   s solution" in screen.until("q quit"), "the keys stay below what they print"
        screen.press("l")
        screen.until("train_step   7 of 10 points")
        screen.until("q quit")
        file.write_text(LAB.reference.read_text())
        shown = screen.until("q quit")
        assert "10 of 10 points" in shown
        assert "train_step passes: s shows the solution beside yours." in shown
        assert "rankzero compare" not in shown, "which is what the key s does"
        screen.press("l")
        screen.until("ok       train_step   10 of 10 points")
        screen.press("h")
        screen.until("hint 2 of 3")
        screen.press("s")
        assert "+ the solution, solutions/lab-02" in screen.until("shows the hint that you did not need")


def test_watch_reports_a_missing_file_and_continues_when_it_is_back(tmp_path: Path) -> None:
    file = file_that_returns_a_tensor(tmp_path)
    with watching("train_step", "--file", str(file)) as screen:
        screen.until("q quit")
        file.rename(tmp_path / "elsewhere.py")
        screen.until("is gone: put it back, and the watch goes on")
        (tmp_path / "elsewhere.py").rename(file)
        assert "7 of 10 points" in screen.until("q quit")


def test_watch_keeps_the_first_failure_on_a_screen_of_24_rows(tmp_path: Path) -> None:
    file = tmp_path / "exercises.py"
    prints = "    for n in range(40):\n        print(n)\n    return loss"
    file.write_text(LAB.reference.read_text().replace("    optimizer.step()\n    return loss.item()", prints))
    with watching("--file", str(file)) as screen:
        rows = screen.until("q quit").replace("\r", "").split("─" * 80 + "\n")[-1].split("\n")
        assert len(rows) < 24
        assert max(map(len, rows)) <= 80
        assert [row for row in rows if row.strip()][-2] == "  Read handbook/backpropagation.md#who-holds-the-graph"
        assert any("FAIL     returns the loss" in row for row in rows)


def test_compare_shows_the_solution_of_an_exercise_that_passes(tmp_path: Path) -> None:
    run("start", "02", "--folder", str(tmp_path))
    file = tmp_path / "lab-02" / "exercises.py"
    code, output = run("compare", "02", "evaluate")
    assert code == 2
    assert "evaluate has 0 of 10 points: once it passes (`rankzero check 02 evaluate`)" in output
    file.write_text(LAB.reference.read_text().replace("totals", "sums"))
    assert "rankzero compare 02 evaluate shows the solution beside yours" in run("check", "02", "evaluate")[1]
    code, output = run("compare", "02", "evaluate")
    assert code == 0
    assert "-     return [float(mean) for mean in sums / tokens]" in output
    assert "      model.eval()\n" in output, "what both share"
    assert "SOLUTION" not in output
    assert "Each batch is a pair" not in output, "without the docstring"
    assert max(map(len, output.splitlines())) <= 80
    assert "rankzero hint 02 evaluate shows the 3 hints that you did not need" in output
    file.write_text("def evaluate(:")
    assert "cannot be read" in run("compare", "02", "evaluate")[1]
