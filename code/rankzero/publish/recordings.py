"""Recordings: the real output of a lab's starter, in files that pages excerpt and a test compares with a new run.

A recording is `code/lab-NN-name/recorded/NAME.txt`. Its first line is the command; the rest is what it printed. Where
the lab's folder has a `NAME.diff`, the command runs a copy of the starter with that change made: a bug to study, which
may end the run.
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
    """The recordings of a lab."""
    return sorted((lab.folder / "recorded").glob("*.txt"))


def prepare(lab: Lab, recording: Path, folder: Path) -> list[str]:
    """Lays out the recording's starter, changed by its diff, in the empty `folder`; returns its path and options.

    UserError where the recording's first line is not a command that runs the starter.
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
    """The recording's first line: `$ ` and the command."""
    return recording.read_text(encoding="utf-8").splitlines()[0]


def is_of_a_bug(lab: Lab, recording: Path) -> bool:
    """Whether the recording is of a starter that a diff has changed: a bug to study, which may end the run."""
    return (lab.folder / f"{recording.stem}.diff").exists()


def run_again(lab: Lab, recording: Path) -> str:
    """Runs a recording's command in an empty folder; returns the command and its output."""
    with TemporaryDirectory() as name:
        arguments = prepare(lab, recording, Path(name))
        output = _run([sys.executable, *arguments], Path(name), recording, fails=is_of_a_bug(lab, recording))
    return f"{command_of(recording)}\n{output}"


def _run(command: list[str], folder: Path, recording: Path, fails: bool = False) -> str:
    """What the command prints. UserError where it does not end well, unless it `fails` as it is meant to."""
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        env={**os.environ, "COLUMNS": "100"},
        check=False,
    )
    if done.returncode and fails:
        return done.stdout + done.stderr
    if done.returncode:
        raise UserError(f"{recording}: `{shlex.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
