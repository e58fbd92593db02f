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
from interrupts import LIMIT_S, Ended, command, interrupt_after, interrupt_at
from tiers import sampled

from rankzero.claims.registry import all_claims, slugs_in_sources
from rankzero.cli.plan_command import NAMES
from rankzero.cli.terminal import START
from rankzero.curriculum import ROOT, find_lab
from rankzero.exercises.checks.known_wrong import known_wrong
from rankzero.ledger.hardware import HARDWARE, MEASURED
from rankzero.ledger.models import PRESETS
from rankzero.ledger.plan.layout import CHECKPOINTING
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

ANSWER = find_lab("02").reference
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
        words = [sys.executable, "-c", WITHOUT_TORCH, *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)


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
MINE = f"run 02 --mine --anyway --file {ANSWER} --steps 3"
STAGES = {
    "while the interpreter imports rankzero.cli, before its handler": ("rankzero.learn.runs.quiet_start", "list"),
    "while the interpreter imports rankzero.cli": ("rankzero.cli.app", "list"),
    "while Typer is imported": ("typer.main", "list"),
    "while Typer is built": ("typer.main:get_command", "list"),
    "while a command works": ("textwrap:fill", "list"),
    "while numpy loads in the command": ("numpy.linalg", "doctor"),
    "while torch loads in the command": ("torch.nn", "doctor"),
    "while torch loads in the server of probes": ("torch.nn@probe_server", f"check 02 --file {ANSWER}"),
    "while torch loads in the starter": ("torch.nn", "run 02 --steps 3"),
    "while torch loads in the starter beside its functions": ("torch.nn@train_single_gpu", MINE),
    "while torch loads in the server of ranks": ("torch.nn@forkserver", "run 07 --steps 3"),
    "while the starter begins": ("rankzero.learn.runs.training_options:run_starter", "run 02 --steps 3"),
}


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "stage",
    sampled(
        STAGES,
        [stage for stage in STAGES if stage.rsplit(" ", 1)[1] not in ("functions", "ranks")],
    ),
)
def test_ctrl_c_at_a_stage_is_one_line(stage: str, tmp_path: Path) -> None:
    place, command = STAGES[stage]
    ended = interrupt_at(place, command.split(), tmp_path)
    at_once = r"\n?Stopped by Ctrl-C(\.| at once: files that were saved before are kept\.)\n"
    assert ended.code == 130, ended
    assert re.fullmatch(at_once, ended.errors), ended
    assert "Traceback" not in ended.out


@pytest.mark.real
@pytest.mark.timeout(900)
def test_ctrl_c_in_a_training_step_saves_and_is_one_line(tmp_path: Path) -> None:
    ended = interrupt_after("step ", ["run", "02", "--steps", "1000000", "--eval-every", "1000000"], tmp_path)
    check_saved(ended, tmp_path)


@pytest.mark.real
@pytest.mark.timeout(900)
def test_ctrl_c_in_a_save_finishes_it_and_is_one_line(tmp_path: Path) -> None:
    words = ["run", "02", "--steps", "1000000", "--eval-every", "1"]  # a save after each step
    ended = interrupt_at("torch.serialization:save", words, tmp_path)
    check_saved(ended, tmp_path)


def check_saved(ended: Ended, folder: Path) -> None:
    assert (ended.code, ended.errors) == (130, ""), ended
    (line,) = re.findall("^Stopped by Ctrl-C.*", ended.out, re.MULTILINE)
    assert ", which is saved. Go on with" in line
    assert (folder / "runs" / "lab-02-001" / "checkpoint.pt").is_file()


COMMANDS = ("list", "status", "check 02", "plan gpt2", "claims no-such", "run 02 --steps 3", "run 01", "doctor")


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("words", COMMANDS)
def test_ctrl_c_at_any_moment_is_one_line(words: str, tmp_path: Path) -> None:
    for _ in range(6):
        seconds = random.uniform(0.05, 4.0)
        with command(words.split(), tmp_path) as process:
            time.sleep(seconds)  # the moment of a Ctrl-C: any will do
            if process.poll() is not None:
                continue
            os.killpg(process.pid, signal.SIGINT)
            out, errors = process.communicate(timeout=LIMIT_S)
        in_python = not out and not re.search(r"rankzero/(?!(cli/)?__main__)", errors)
        if in_python and (process.returncode == -signal.SIGINT or re.search("Traceback|Fatal Python", errors)):
            continue  # Python itself was starting: no program can handle the signal yet
        assert "Traceback" not in errors, f"{words} after {seconds:.2f} s\n{errors}"
        if process.returncode == 130:
            assert len(re.findall("^Stopped by Ctrl-C", out + errors, re.MULTILINE)) == 1, f"{out}\n{errors}"
        else:  # it had ended by itself, with a sentence in a folder where nothing is started
            assert process.returncode in (0, 1, 2), f"{words} after {seconds:.2f} s: {process.returncode}\n{errors}"
