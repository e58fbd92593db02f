"""The first moment of a command: mistakes that are refused before torch is imported, and Ctrl-C while it loads."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm_process

from rankzero.claims.registry import all_claims, slugs_in_sources
from rankzero.cli.plan_command import NAMES
from rankzero.cli.terminal import START
from rankzero.curriculum import ROOT, find_lab
from rankzero.exercises.checks.known_wrong import known_wrong
from rankzero.ledger.hardware import HARDWARE, MEASURED
from rankzero.ledger.models import PRESETS
from rankzero.ledger.plan.layout import CHECKPOINTING
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

WITHOUT_TORCH = """
import sys
from rankzero.cli.__main__ import main
sys.modules["torch"] = None  # an import of it raises ModuleNotFoundError
sys.argv = ["rankzero", *sys.argv[1:]]
main()
"""


def cold(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command in a new Python that cannot import torch."""
    with warm_process.cold_starts():
        command = [sys.executable, "-c", WITHOUT_TORCH, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=100)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("plan lama-3-8b", "there is no preset 'lama-3-8b': did you mean llama-3-8b?"),
        ("plan gpt2 --recipe amb", "there is no recipe 'amb': did you mean amp?"),
        ("plan gpt2 --hardware h800", "there is no hardware 'h800': did you mean h200?"),
        ("claims adamw-state-9-bytes", "near it are adamw-state-8-bytes"),
        ("run 02 --stepz 5", "lab 02 has no option --stepz: did you mean --steps?"),
        ("run 22", "there is no lab '22'"),
        ("check 02 train_stepp", "lab 02 has no exercise 'train_stepp'"),
        ("hint 22", "there is no lab '22'"),
    ],
)
def test_a_mistyped_name_is_refused_before_torch_is_imported(command: str, sentence: str) -> None:
    done = cold(*command.split())
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("option", ["--steps", "--ste", "--resume", "--no-deterministic", "--corpus=x"])
def test_options_that_argparse_takes_reach_the_starter(option: str) -> None:
    from rankzero.cli.starter_options import check_options
    from rankzero.curriculum import find_lab

    check_options(find_lab("02"), [option, "3", "--"])


def test_the_names_that_plan_knows_without_torch_are_the_ledgers() -> None:
    ledger = (PRESETS, RECIPES, OPTIMIZERS, CHECKPOINTING, (*HARDWARE, MEASURED))
    assert [set(names) for names in NAMES.values()] == [set(names) for names in ledger]


def test_the_slugs_known_without_imports_are_those_of_all_claims() -> None:
    assert slugs_in_sources() == set(all_claims())


def test_help_doctor_and_readme_begin_at_the_same_place() -> None:
    help_text = " ".join(cold().stdout.replace("│", " ").split())
    assert START in help_text
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    begin = readme[readme.index("## Where to begin") :]
    first = ["`make lab-02`", "`rankzero run 02`", "`rankzero start 02`"]
    assert [begin.index(command) for command in first] == sorted(begin.index(command) for command in first)
    assert all(command in START for command in first)


def test_make_lists_its_commands_within_80_columns() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "make lab-NN" in listed
    assert [line for line in listed.splitlines() if len(line) > 80] == []


def test_the_mistake_on_readme_is_named_in_the_words_of_the_check() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    screen = " ".join(readme.partition("$ rankzero check 02 train_step")[2].partition("```")[0].split())
    mistake = known_wrong(find_lab("02"))["never_clear"]
    assert f"A known mistake: {' '.join(mistake.explanation.split())} Read {mistake.read}" in screen


# -------------------------------------------------------------------------------------------------------------- Ctrl-C
COMMANDS = ("list", "status", "check 02", "plan gpt2", "claims no-such", "run 02 --steps 3", "run 01", "doctor")


def interrupted(command: str, seconds: float, folder: Path) -> tuple[int, str]:
    """Returns exit code and stderr of a cold command after Ctrl-C at that time; code 0 if it had ended before."""
    with warm_process.cold_starts():
        process = subprocess.Popen(
            [sys.executable, "-m", "rankzero", *command.split()],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=os.environ | {"PYTHONPATH": str(ROOT / "code")},
        )  # fmt: skip
    time.sleep(seconds)  # the moment of a Ctrl-C: any will do
    ended = process.poll() is not None
    if not ended:
        os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=100)
    return 0 if ended else process.returncode, errors


def check_interrupted(command: str, seconds: float, folder: Path) -> None:
    code, errors = interrupted(command, seconds, folder)
    if not re.search(r"rankzero/(?!(cli/)?__main__)", errors) and re.search("Traceback|Fatal Python", errors):
        return  # Python itself was starting
    # Before Python has installed any handler, the signal itself ends it; a shell reports that as 130 too.
    assert code in (0, 130, -signal.SIGINT), f"{command} after {seconds:.2f} s: {code}\n{errors}"
    assert "Traceback" not in errors, f"{command} after {seconds:.2f} s\n{errors}"
    if code == 130:
        assert "topped" in errors
        assert len(errors.strip().splitlines()) == 1, f"{command} after {seconds:.2f} s\n{errors}"


@pytest.mark.parametrize("command", ["check 02", "run 01"])
def test_ctrl_c_while_libraries_load_is_one_line(command: str, tmp_path: Path) -> None:
    check_interrupted(command, random.uniform(0.3, 1.0), tmp_path)


@pytest.mark.prove
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_at_any_moment_is_one_line(command: str, tmp_path: Path) -> None:
    for _ in range(6):
        check_interrupted(command, random.uniform(0.05, 4.0), tmp_path)
