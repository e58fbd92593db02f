"""`rankzero run NN --mine`: the reference gives the starter's loss curve, and a wrong solution parts from it."""

import math
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import draft_labs
import pytest
from typer.testing import CliRunner
from warm_process import cold_starts

from rankzero.cli import app as cli
from rankzero.curriculum import Lab, find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_file
from rankzero.exercises.study.mine import Curves, starter_options, used_exercises
from rankzero.exercises.study.starter_process import replacements

LABS = tuple(lab.number for lab in draft_labs.tested_labs() if lab.mine.is_file())
LONG_S = 300.0  # limit of a process that ends by itself
SHAPE = ("--hidden-dim", "32", "--layers", "2", "--heads", "2", "--block-size", "16", "--batch-size", "4")
SHORT: dict[str, tuple[str, ...]] = dict.fromkeys(LABS, (*SHAPE, "--steps", "12", "--eval-every", "6"))
SHORT |= {"06": (*SHAPE, "--active", "4", "--warmup", "1"), "10": ("--epochs", "1", "--merges", "0", "--read-ms", "0")}
SHORT |= {"11": (*SHAPE, "--steps", "12"), "14": ("--hidden-dim", "8", "--batch-size", "16", "--steps", "12")}
SHORT |= {"15": ("--hidden-dim", "16", "--layers", "1", "--block-size", "8", "--tokens", "4096", "--trials", "7")}
SHORT |= {"16": ("--quick",)}

# A known-wrong solution per lab. Lab 02 saves after step 6, and AdamW without its averages makes another step 7:
WRONG = {
    "02": ("weights_only", 8),
    "03": ("never_clips", None),
    "04": ("tokens_over_old_gradients", None),
    "05": ("another_mask", None),
    "07": ("never_averaged", None),
    "08": ("gradient_of_this_rank", None),
    "09": ("data_restarts_at_0", None),
    "10": ("divided_by_255_twice", 1),
    "11": ("padding_counts_in_the_loss", None),
    "14": ("last_share_wins", None),
    "15": ("no_bias_correction", None),
    "16": ("sum_of_means", None),
}
every_lab = pytest.mark.parametrize(
    "number", [number if number == "07" else pytest.param(number, marks=pytest.mark.prove) for number in LABS]
)


@pytest.fixture(autouse=True)
def fixed_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "SystemRandom", lambda: random.Random(3))  # of which a check takes its seed


def run(number: str, file: Path, out: Path, *arguments: str) -> tuple[int, str]:
    command = ["run", number, "--mine", "--file", str(file), *SHORT[number], "--out", str(out), *arguments]
    result = CliRunner().invoke(cli.app, command)
    return result.exit_code, result.output


def test_an_option_of_the_command_line_replaces_that_of_the_lab() -> None:
    lab = find_lab("02")
    others = ["--device", "cpu", "--eval-every", "100"]
    assert starter_options(lab, ["--steps", "8"]) == [*others, "--steps", "8"]
    assert starter_options(lab, ["--step=8"]) == [*others, "--step=8"]
    assert starter_options(lab, []) == ["--device", "cpu", "--steps", "200", "--eval-every", "100"]


@every_lab
def test_the_reference_gives_the_starters_curve(number: str, tmp_path: Path) -> None:
    code, output = run(number, find_lab(number).reference, tmp_path, "--anyway")
    assert code == 0, output
    assert re.search(r"Equal (bit for bit: the losses of all|within rounding)", output)
    assert (tmp_path / f"lab-{number}-mine-001" / "losses.png").stat().st_size > 10_000
    if number == "10":
        assert output.index("  this process loads") < output.index("\n  step "), "its first step comes late"


@pytest.mark.parametrize(
    "number",
    [number if number == "02" else pytest.param(number, marks=pytest.mark.prove) for number in WRONG if number in LABS],
)
def test_a_known_wrong_solution_parts_from_the_starter(number: str, tmp_path: Path) -> None:
    lab, (name, step) = find_lab(number), WRONG[number]
    code, output = run(number, wrong_file(lab, known_wrong(lab)[name]), tmp_path, "--anyway")
    assert code == 1, output
    (parting,) = re.findall(r"The curves part at step (\d+): the starter's loss is", output)
    assert step in (None, int(parting))
    assert "<- here they part" in output


CUTS_THE_GRAPH = """
import contextlib
right_watch = watch
@contextlib.contextmanager
def watch(modules):
    hooks = [module.register_forward_hook(lambda block, inputs, output: output.detach()) for module in modules.values()]
    with right_watch(modules) as log:
        yield log
    for hook in hooks:
        hook.remove()
"""
FORGETS_THE_OPTIMIZER = """
right_fractions = phase_fractions
def phase_fractions(events, warmup):
    median, fractions = right_fractions(events, warmup)
    return median, fractions | {"optimizer": 0.0}
"""


@pytest.mark.prove
@pytest.mark.parametrize(
    ("addition", "sentence"),
    [
        (CUTS_THE_GRAPH, "The curves part at step 2"),
        (FORGETS_THE_OPTIMIZER, "phase_fractions says 0.0000 for 'optimizer' where the starter's account"),
    ],
)
def test_a_watch_that_changes_the_step_and_a_wrong_account_are_noticed(
    addition: str, sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exercises.py").write_text(find_lab("06").reference.read_text() + addition)
    code, output = run("06", tmp_path, tmp_path, "--anyway")
    assert code
    assert sentence in " ".join((output + capfd.readouterr().err).split())


def test_the_run_is_refused_until_the_exercises_pass(tmp_path: Path) -> None:
    code, output = run("04", find_lab("04").stubs, tmp_path)
    assert (code, output.count("\n")) == (2, 1), output
    assert "accumulate_tokens does not pass its checks yet: `rankzero check 04 accumulate_tokens` says why" in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.prove  # test_cli.py stops one run so, and the next test stops a comparison of two
@pytest.mark.real
def test_sigterm_reaches_the_run_that_trains(tmp_path: Path) -> None:
    file = find_lab("02").reference
    options = ["--mine", "--anyway", "--file", str(file), *SHAPE, "--steps", "100000", "--out", str(tmp_path)]
    command = [sys.executable, "-u", "-m", "rankzero.cli", "run", "02", *options]
    with cold_starts():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    while "step     1/" not in (line := process.stdout.readline()):
        assert line
    process.terminate()
    output = process.communicate(timeout=LONG_S)[0]
    assert process.returncode == 143
    assert "Stopped by SIGTERM after step" in output
    assert "yours:" not in output, "the second run is not started"


@pytest.mark.prove
@pytest.mark.real
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("starter: ", id="while libraries load"),
        pytest.param("step     1/", id="in training"),
    ],
)
def test_ctrl_c_ends_both_programs_with_one_sentence(moment: str, tmp_path: Path) -> None:
    file = find_lab("02").reference
    options = ["--mine", "--anyway", "--file", str(file), *SHAPE, "--steps", "100000", "--out", str(tmp_path)]
    command = [sys.executable, "-u", "-m", "rankzero.cli", "run", "02", *options]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with cold_starts():
        process = subprocess.Popen(command, start_new_session=True, **pipes)
    assert process.stdout
    while moment not in (line := process.stdout.readline()):
        assert line
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=LONG_S)[0]
    assert process.returncode == 130, output
    assert output.count("Stopped by Ctrl-C") == 1, output
    assert "Traceback" not in output
    if "step" in moment:
        assert output.count("Ctrl-C: the run stops after its step") == 1, "at once, where a step takes long"
    assert "Go on with" not in output, "two whole runs are compared, and none of them goes on"
    assert "yours:" not in output, "the second run is not started"


def test_what_is_not_written_yet_ends_the_run_with_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _ = run("04", find_lab("04").stubs, tmp_path, "--anyway")
    assert code == 1
    assert "accumulate_tokens is not written yet" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["04", "--mine", "--anyway", "--resume", "x"], "--mine trains twice from the beginning: leave --resume out."),
        (
            ["01", "--mine", "--anyway"],
            "lab 01 has no run with your functions, because its starter uses none of them: leave --mine out, "
            "and check them with `rankzero check 01`.",
        ),
        (
            ["07", "--mine", "--stpes", "4"],
            "lab 07 has no option --stpes: did you mean --steps? `rankzero run 07 --help` lists all.",
        ),
        (["04", "--anyway"], "--anyway is about your functions: give --mine too."),
    ],
)
def test_mistakes_get_one_sentence(command: list[str], sentence: str) -> None:
    files = ["--file", str(find_lab(command[0]).stubs)] if "--mine" in command else []
    result = CliRunner().invoke(cli.app, ["run", *command, *files])
    assert (result.exit_code, " ".join(result.output.split())) == (2, f"rankzero: {sentence}")


@pytest.mark.parametrize("lab", [find_lab(number) for number in LABS], ids=LABS)
def test_every_adapter_names_functions_that_exist(lab: Lab) -> None:
    assert used_exercises(lab)
    assert replacements(lab, lab.reference)


def test_a_function_of_no_exercise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from rankzero.exercises.study import mine

    adapter = type("Adapter", (), {"USES": ("nothing",)})
    monkeypatch.setattr(mine, "read_adapter", lambda lab: adapter)
    with pytest.raises(UserError, match="nothing in USES is no function of an exercise"):
        used_exercises(find_lab("04"))


def test_curves_are_equal_or_rounded_or_part_or_end_early() -> None:
    starter = (4.0, 3.0, 2.0)
    assert Curves(starter, starter, 0.0).verdict() == "Equal bit for bit: the losses of all 3 steps."
    rounded = Curves(starter, (4.0, 3.00003, 2.0), 1e-4)
    assert rounded.is_equal
    assert rounded.verdict().startswith("Equal within rounding: the largest difference is 1.0e-05 of the loss")
    apart = Curves(starter, (4.0, 3.3, 1.0), 1e-4)
    assert apart.parting == 2
    assert "at step 2: the starter's loss is 3.000000, yours is 3.300000, a difference of 0.1 of it" in apart.verdict()
    assert "<- here they part" in apart.table()
    early = Curves(starter, starter[:2], 0.0)
    assert not early.is_equal
    assert early.verdict() == "Your run ended after step 2 of 3; up to there the curves are equal."
    assert Curves(starter, (4.0, math.nan), 0.1).parting == 2
