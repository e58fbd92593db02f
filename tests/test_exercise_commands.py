"""Commands for exercises: start, check, watch, hint, status, reset."""

import ast
import contextlib
import json
import os
import pty
import random
import re
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock, patch

import pytest
from typer.testing import CliRunner

from rankzero.cli import app as cli
from rankzero.curriculum import Lab, find_lab
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_source
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.report import Report
from rankzero.exercises.study import watch
from rankzero.exercises.study.dependencies import code_by_exercise
from rankzero.exercises.study.progress import LabProgress, read_progress, write_progress

LAB = find_lab("02")
LONG_S = 300.0  # limit of a process that ends by itself
runner = CliRunner()


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKZERO_PROGRESS", str(tmp_path / "state" / "progress.json"))
    monkeypatch.setattr(random, "SystemRandom", lambda: random.Random(3))  # of which a check takes its seed


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
    report = json.loads(run("check", "02", "evaluate", "--json")[1])
    assert (report["points"], report["max_points"]) == (10, 10)
    assert "20 of 50 points" in run("status")[1]


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


def test_reset_of_one_exercise_keeps_all_other_code(tmp_path: Path) -> None:
    run("start", "02", "--folder", str(tmp_path))
    file, stubs = tmp_path / "lab-02" / "exercises.py", LAB.stubs.read_text()
    mine = f"# mine\nimport math as m\n{LAB.reference.read_text()}\n\ndef helper():\n    return m.pi\n"
    file.write_text(mine)
    write_progress(
        "02", LabProgress(str(file), {"checkpoint": 9, "evaluate": 8}, hints={"checkpoint": 1, "evaluate": 2})
    )
    refused = runner.invoke(cli.app, ["reset", "02", "checkpoint"], input="n\n")
    assert "The untouched exercise replaces checkpoint in" in refused.output
    assert file.read_text() == mine
    assert run("reset", "02", "checkpoint", "--yes")[0] == 0
    own, given, before = (functions(text) for text in (file.read_text(), stubs, mine))
    reset = {"save_checkpoint", "load_checkpoint"}
    assert own == {name: given[name] if name in reset else text for name, text in before.items()}
    assert file.read_text().startswith("# mine\nimport math as m\n")
    assert (tmp_path / "lab-02" / "exercises.backup-1.py").read_text() == mine
    kept = read_progress()["02"]
    assert (kept.points, kept.hints) == ({"evaluate": 8}, {"evaluate": 2})
    file.write_text("def load_checkpoint(\n")
    code, output = run("reset", "02", "checkpoint", "--yes")
    assert (code, "line 1: '(' was never closed: correct it, or reset the whole file" in output) == (2, True)
    file.write_text("x = 1\n")
    assert run("reset", "02", "checkpoint", "--yes")[0] == 0
    assert functions(file.read_text()) == {name: given[name] for name in reset}


def functions(source: str) -> dict[str, str]:
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(source, node) or "" for node in nodes}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "77"], "there is no lab '77'"),
        (["check", "02", "nonsense"], "lab 02 has no exercise 'nonsense': it has train_step, evaluate"),
        (["check", "02", "trainstep"], "no exercise 'trainstep': did you mean train_step? It has train_step, evaluate"),
        (["check", "02", "learning"], "no exercise 'learning': did you mean learning_rate? It has train_step"),
        (["hint", "07", "reduce"], "did you mean ring_all_reduce or reduce_bucket? It has exchange"),
        (["check", "03", "scale"], "did you mean update_scale or unscale or scaled_step? It has share_lost"),
        (["compare", "02", "save_checkpont"], "did you mean save_checkpoint? It has train_step"),
        (["compare", "02"], "name the exercise to compare: lab 02 has train_step, evaluate"),
        (["status", "77"], "there is no lab '77'"),
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


@pytest.mark.prove
def test_status_of_one_lab_lists_its_exercises(tmp_path: Path) -> None:
    output = run("status", "07")[1]
    assert re.match(r"07 .* not started .*\n  todo     exchange   0 of \d+ points", output)
    assert "Begin with: rankzero start 07" in output
    assert "train_step" not in output
    run("start", "02", "--folder", str(tmp_path))
    (tmp_path / "lab-02" / "exercises.py").write_text(LAB.reference.read_text())
    run("check", "02", "learning_rate")
    output = run("status", "02")[1]
    assert re.search(r"02 .* 10 of 50 points .*\n  todo     train_step   0 of 10 points", output)
    assert "  ok       learning_rate   10 of 10 points" in output
    assert json.loads(run("status", "07", "--json")[1]) == {}


def test_a_damaged_progress_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "progress.json").write_text("{")
    code, output = run("status")
    assert code == 2
    assert "progress.json cannot be read" in output


@pytest.mark.prove
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


@pytest.mark.prove
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
    kept = tmp_path / "state" / "earned" / "lab-02"
    assert f"The files that earned them: {kept}/" in output
    assert sorted(path.stem for path in kept.iterdir()) == sorted(each.name for each in exercises_of(LAB))
    assert (kept / "train_step.py").read_text() == LAB.reference.read_text()


@pytest.mark.prove
def test_hint_without_a_name_is_for_the_first_unsolved_exercise(tmp_path: Path) -> None:
    run("start", "02", "--folder", str(tmp_path))
    assert "train_step, hint 1 of 3" in run("hint", "02")[1]
    file = tmp_path / "lab-02" / "exercises.py"
    file.write_text(LAB.reference.read_text())
    assert "Next: rankzero watch 02 evaluate" in run("check", "02", "train_step")[1]
    assert "evaluate, hint 1 of 3" in run("hint", "02")[1]
    run("check", "02")
    code, output = run("hint", "02")
    assert (code, "nothing is left to hint at" in output) == (0, True)


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


@pytest.mark.prove
def test_a_report_is_narrow_and_has_no_escape_codes_in_a_file(tmp_path: Path) -> None:
    file = file_that_returns_a_tensor(tmp_path)
    command = [sys.executable, "-m", "rankzero.cli", "check", "02", "--seed", "3", "--file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if "seed" not in line) <= 80
    assert (
        "the loss is of type Tensor, which may keep its graph in memory (.item() returns a float); "
        "expected a Python float." in " ".join(done.stdout.split())
    )


def save(file: Path, text: str) -> None:
    """Writes as an editor does: nobody sees a part of the text."""
    partial = file.with_name("partial")
    partial.write_text(text)
    partial.replace(file)


class Screen:
    """A terminal on which a command runs."""

    def __init__(self, *arguments: str) -> None:
        self.leader, follower = pty.openpty()
        termios.tcsetwinsize(follower, (24, 80))
        command = [sys.executable, "-m", "rankzero.cli", *arguments]
        environment = {**os.environ, "TERM": "dumb", "LINES": "24"}
        self.process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
        os.close(follower)
        self.unread = ""

    def press(self, key: str) -> None:
        os.write(self.leader, key.encode())

    def until(self, text: str) -> str:
        """Waits for `text` and returns what is shown up to it, from where the last call ended."""
        while text not in self.unread:
            assert select.select([self.leader], [], [], LONG_S)[0], f"{text!r} did not appear in {self.unread!r}"
            self.unread += os.read(self.leader, 4096).decode(errors="replace")
        before, _, self.unread = self.unread.partition(text)
        return before + text


@contextmanager
def watching(*arguments: str) -> Iterator[Screen]:
    screen = Screen("watch", "02", *arguments)
    try:
        yield screen
        screen.press("q")
        assert screen.process.wait(timeout=LONG_S) == 0
    finally:
        screen.process.kill()
        os.close(screen.leader)


def test_watch_checks_again_on_save_and_q_ends_it(tmp_path: Path) -> None:
    file = file_that_returns_a_tensor(tmp_path)
    with watching("train_step", "--file", str(file)) as screen:
        assert "5 of 10 points" in screen.until("q quit")
        screen.press("h")
        screen.until("hint 1 of 3")
        assert "h hint   s solution" in screen.until("q quit"), "the keys stay below what they print"
        screen.press("l")
        screen.until("train_step   5 of 10 points")
        screen.until("q quit")
        save(file, LAB.reference.read_text())
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


def test_code_changes_for_the_exercises_that_depend_on_it() -> None:
    lab = find_lab("07")
    source = lab.reference.read_text()

    def changed(old: str, new: str) -> set[str]:
        assert old in source
        before, after = (
            code_by_exercise(lab, text.encode(), exercises_of(lab)) for text in (source, source.replace(old, new, 1))
        )
        return {name for name in before if before[name] != after[name]}

    assert changed("each = length", "each = 2 * length") == {"shard"}
    assert changed("bucket.append(parameter)", "bucket += [parameter]") == {"make_buckets", "overlap"}
    assert changed("    sending.wait()\n", "") == {"exchange", "ring_all_reduce"}
    assert changed("import contextlib\n", "import contextlib, math\n") == {each.name for each in exercises_of(lab)}
    assert changed("    sending.wait()\n", "    sending.wait()  # both\n") == set()
    assert code_by_exercise(lab, b"def shard(:", exercises_of(lab)) == {}


def test_a_save_checks_only_what_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: LocalProbeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    source = LAB.reference.read_text()
    file = tmp_path / "exercises.py"
    file.write_text(source)
    asked: list[str] = []
    send = client._send

    def note(lab: Lab, asked_file: Path, exercise: Exercise, *more: Any) -> Any:
        asked.extend([exercise.name] * (asked_file == file))
        return send(lab, asked_file, exercise, *more)

    def after(text: str) -> list[str]:
        asked.clear()
        capsys.readouterr()
        file.write_text(text)
        session.check()
        return asked

    monkeypatch.setattr(client, "_send", note)
    chosen = tuple(each for each in exercises_of(LAB) if each.name in ("train_step", "learning_rate"))
    session = watch.Session(LAB, chosen, file, client, remember=False)
    assert after(source) == ["train_step", "learning_rate"]
    assert after(source.replace("math.pi", "3")) == ["learning_rate"]
    assert "FAIL     learning_rate" in capsys.readouterr().out
    assert after(source.replace("math.pi", "math.tau / 2")) == ["learning_rate"]
    assert after(source.replace("def learning_rate(step: int,", "def learning_rate(step: whole,")) != []
    assert "0 of 20 points" in capsys.readouterr().out, "the file does not load: nothing passes"


@pytest.mark.parametrize("saved", ["x = 1\n", "x = 2\n"], ids=["unchanged", "changed"])
def test_a_save_during_a_check_makes_no_second_report_of_one_file(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "exercises.py"
    file.write_text("x = 1\n")
    checks: list[str] = []

    def check_and_save(lab: object, *_: object, **__: object) -> Report:
        checks.append(file.read_text())
        if len(checks) == 1:
            file.write_text(saved)
        return Report("02", str(file), 3, (), (), unusable="no function is there.")

    monkeypatch.setattr(watch, "check_file", check_and_save)
    monkeypatch.setattr(watch, "POLL_S", 0.0)
    session = watch.Session(LAB, (), file, cast(LocalProbeClient, Mock()), remember=False)
    waits = iter(["", "", "q"])
    with patch.object(watch, "_keys", lambda: contextlib.nullcontext(lambda seconds: next(waits))):
        session.run()
    assert capsys.readouterr().out.count("no function is there.") == 1
    assert checks == list(dict.fromkeys(["x = 1\n", saved]))


def test_watch_names_no_exercise_as_passed_because_the_file_loads_again(tmp_path: Path) -> None:
    file = tmp_path / "exercises.py"
    file.write_text(LAB.reference.read_text())
    with watching("train_step", "--file", str(file)) as screen:
        assert "train_step passes" in screen.until("q quit")
        save(file, "def train_step(:")
        screen.until("q quit")
        save(file, LAB.reference.read_text())
        assert "train_step passes" not in screen.until("q quit")


def test_watch_reports_a_missing_file_and_continues_when_it_is_back(tmp_path: Path) -> None:
    file = file_that_returns_a_tensor(tmp_path)
    with watching("train_step", "--file", str(file)) as screen:
        screen.until("q quit")
        file.rename(tmp_path / "elsewhere.py")
        screen.until("is gone: put it back, and the watch goes on")
        (tmp_path / "elsewhere.py").rename(file)
        assert "5 of 10 points" in screen.until("q quit")


def test_watch_keeps_the_first_failure_on_a_screen_of_24_rows(tmp_path: Path) -> None:
    file = tmp_path / "exercises.py"
    prints = "    for n in range(40):\n        print(n)\n    return loss"
    file.write_text(LAB.reference.read_text().replace("    optimizer.step()\n    return loss.item()", prints))
    with watching("--file", str(file)) as screen:
        rows = screen.until("q quit").replace("\r", "").split("─" * 80 + "\n")[-1].split("\n")
        assert len(rows) < 24
        assert max(map(len, rows)) <= 80
        assert [row for row in rows if row.strip()][-2] == "  Read handbook/backpropagation.md#lifetime-of-the-graph"
        assert any("FAIL     returns two floats" in row for row in rows)


def test_a_failure_without_a_known_mistake_ends_in_a_hint_and_the_best_result(tmp_path: Path) -> None:
    run("start", "02", "--folder", str(tmp_path))
    file = tmp_path / "lab-02" / "exercises.py"
    write_progress("02", LabProgress(str(file), {"learning_rate": 10}))
    file.write_text(LAB.reference.read_text().replace("math.cos(math.pi * progress)", "math.cos(3 * progress)"))
    code, output = run("check", "02", "learning_rate")
    assert code == 1
    assert output.endswith(
        "Your best result counts: 10 of 10 points in learning_rate.\n"
        "No known mistake explains this. A hint: rankzero hint 02 learning_rate\n"
    )
    wrong = next(wrong for wrong in known_wrong(LAB).values() if wrong.exercise == "learning_rate")
    file.write_text(wrong_source(LAB, wrong))
    assert "A hint" not in run("check", "02", "learning_rate")[1], "of a known mistake"


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
    mistake = "A common mistake in this place, which both avoid: The result is the average of the batches' means."
    assert mistake in " ".join(output.replace("\n  | ", " ").split())
    assert "SOLUTION" not in output
    assert "Each batch is a pair" not in output, "without the docstring"
    assert max(map(len, output.splitlines())) <= 80
    assert "rankzero hint 02 evaluate shows the 3 hints that you did not need" in output
    file.write_text("def evaluate(:")
    assert "cannot be read" in run("compare", "02", "evaluate")[1]
