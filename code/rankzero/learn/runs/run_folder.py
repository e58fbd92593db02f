"""Run folders: a new folder per run, its newest checkpoint, and a stop by Ctrl-C at the end of a step."""

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rankzero.errors import UserError

ECHO_S = 1.0  # a signal that comes again within this time is the same request


def new_run_folder(parent: Path, name: str) -> Path:
    """Makes and returns the first free folder of `parent/name-001`, `-002`, ..., so that no earlier run is touched.

    UserError where `parent` cannot be written.
    """
    numbers = [int(path.name.removeprefix(f"{name}-")) for path in _runs(parent, name)]
    number = max(numbers, default=0) + 1
    while True:
        folder = parent / f"{name}-{number:03d}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if not folder.is_dir():  # a file has the name of `parent`
                raise _unwritable(parent, "a file is in the way", "--out") from None
            number += 1  # another run made it since `_runs` was called
        except OSError as error:
            raise _unwritable(parent, error.strerror, "--out") from None


def latest_checkpoint(parent: Path, name: str) -> Path:
    """Returns the checkpoint of the newest run of `name` that has one. UserError where there is none."""
    for folder in sorted(_runs(parent, name), key=lambda path: int(path.name.rsplit("-", 1)[1]), reverse=True):
        if (checkpoint := folder / "checkpoint.pt").is_file():
            return checkpoint
    raise UserError(f"no run under {parent}/ has a checkpoint to resume from: name one with --resume PATH.")


def check_new_file(file: Path, *, may_replace: Path | None) -> None:
    """UserError unless `file` can be written and does not exist yet, or is `may_replace` itself."""
    try:
        if file.exists() and not (file.is_file() and may_replace and file.samefile(may_replace)):
            raise UserError(f"{file} exists: resume from it with --resume, or choose another --checkpoint.")
        tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise _unwritable(file.parent, error.strerror, "--checkpoint") from None


def _runs(parent: Path, name: str) -> list[Path]:
    try:
        return [path for path in parent.glob(f"{name}-*") if path.name.removeprefix(f"{name}-").isdecimal()]
    except OSError:  # such as a name that is too long; making the folder reports it
        return []


def _unwritable(folder: Path, reason: str | None, option: str) -> UserError:
    return UserError(f"cannot write to {folder} ({reason}): choose another place with {option}.")


@contextmanager
def finish_step_on_interrupt() -> Iterator[list[float]]:
    """Turns the first Ctrl-C into a flag to test between steps: in mid-step, weights and optimizer disagree.

    The flag is a list: empty, then with the time of the first Ctrl-C.

    A second Ctrl-C raises KeyboardInterrupt at once, unless it comes within ECHO_S of the first: where Slurm signals
    every process of a job, a rank gets the signal from Slurm and again from torchrun, and both mean one request.
    """
    requested: list[float] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        if not requested:
            requested.append(time.monotonic())
        elif time.monotonic() - requested[0] > ECHO_S:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield requested
    finally:
        signal.signal(signal.SIGINT, before)
