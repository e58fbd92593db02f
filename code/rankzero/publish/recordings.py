"""What a lab's starter really printed: recorded into files that pages excerpt, and run again by a test.

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


def run_again(lab: Lab, recording: Path) -> str:
    """Runs a recording's command in an empty folder, as if in the repository's, and returns it with its output."""
    command = recording.read_text(encoding="utf-8").splitlines()[0]
    program, *arguments = shlex.split(command.removeprefix("$ "))
    starter = lab.starter.relative_to(lab.root)
    if program != "python" or not arguments or Path(arguments[0]) != starter:
        raise UserError(f"{recording}: its first line must be `$ python {starter} [options]`.")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / starter).parent.mkdir(parents=True)
        shutil.copy(lab.starter, folder / starter)
        change = lab.folder / f"{recording.stem}.diff"
        if change.exists():
            _run(["git", "apply", str(change)], folder, recording)
        output = _run([sys.executable, *arguments], folder, recording, fails=change.exists())
    return f"{command}\n{output}"


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
