"""Recordings: the real output of a lab's starter, in files that pages excerpt and a test compares with a new run.

A recording is `code/lab-NN-name/recorded/NAME.txt`. Its first line is the command; the other lines are the command's
output. If the lab's folder has a `NAME.diff`, the command runs a copy of the starter changed by that diff: a bug to
study, which may end the run.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rankzero.curriculum import Lab
from rankzero.errors import UserError

TIME_LIMIT_S = 300


def recordings(lab: Lab) -> list[Path]:
    """Returns the recordings of a lab."""
    return sorted((lab.folder / "recorded").glob("*.txt"))


def prepare(lab: Lab, recording: Path, folder: Path) -> list[str]:
    """Copies the recording's starter, changed by its diff, to the empty `folder`; returns its path and options.

    UserError if the recording's first line is not a command that runs the starter.
    """
    program, *arguments = shlex.split(command_of(recording).removeprefix("$ "))
    starter = lab.starter.relative_to(lab.root)
    if program != "python" or not arguments or Path(arguments[0]) != starter:
        raise UserError(f"{recording}: its first line must be `$ python {starter} [options]`.")
    (folder / starter).parent.mkdir(parents=True)
    shutil.copy(lab.starter, folder / starter)
    if is_of_a_bug(lab, recording):
        _run(["git", "apply", str(lab.folder / f"{recording.stem}.diff")], folder, recording)
    return arguments


def command_of(recording: Path) -> str:
    """Returns the recording's first line: `$ ` and the command."""
    return recording.read_text(encoding="utf-8").splitlines()[0]


def is_of_a_bug(lab: Lab, recording: Path) -> bool:
    """Returns whether the recording's starter is changed by a diff: a bug to study, which may end the run."""
    return (lab.folder / f"{recording.stem}.diff").exists()


def run_again(lab: Lab, recording: Path) -> str:
    """Runs a recording's command in an empty folder; returns the command and its output."""
    with TemporaryDirectory() as name:
        arguments = prepare(lab, recording, Path(name))
        output = _run([sys.executable, *arguments], Path(name), recording, fails=is_of_a_bug(lab, recording))
    return f"{command_of(recording)}\n{output}"


def _run(command: list[str], folder: Path, recording: Path, fails: bool = False) -> str:
    """Returns the command's output, with its errors if it may fail and does. UserError for another failure."""
    environment = {**os.environ, "COLUMNS": "100", "RANKZERO_MACHINE": "machine.json"}
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT_S, env=environment)
    if result.returncode and not fails:
        raise UserError(f"{recording}: `{shlex.join(command)}` ended with {result.returncode}: {result.stderr.strip()}")
    return result.stdout + result.stderr if result.returncode else result.stdout
