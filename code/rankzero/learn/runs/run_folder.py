"""Where a run's files go, and how a run stops without losing them."""

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
    """Makes the first free one of `parent/name-001`, `-002`, ... so that no earlier run is touched.

    UserError where `parent` cannot be written.
    """
    taken = [int(path.name.removeprefix(f"{name}-")) for path in _runs(parent, name)]
    number = max(taken, default=0) + 1
    while True:
        folder = parent / f"{name}-{number:03d}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if not folder.is_dir():  # something in the way of `parent` itself
                raise _unwritable(parent, "a file is in the way", "--out") from None
            number += 1  # another run took it between the look and the making
        except OSError as error:
            raise _unwritable(parent, error.strerror, "--out") from None


def latest_checkpoint(parent: Path, name: str) -> Path:
    """The checkpoint of the newest run of `name` that has one. UserError where there is none."""
    for folder in sorted(_runs(parent, name), key=lambda path: int(path.name.rsplit("-", 1)[1]), reverse=True):
        if (checkpoint := folder / "checkpoint.pt").is_file():
            return checkpoint
    raise UserError(f"no run under {parent}/ has a checkpoint to resume from: name one with --resume PATH.")


def check_new_file(file: Path, *, may_replace: Path | None) -> None:
    """UserError unless `file` can be made without losing anything: it is not there yet, or is `may_replace` itself."""
    try:
        if file.exists() and not (file.is_file() and may_replace and file.samefile(may_replace)):
            raise UserError(f"{file} exists: resume from it with --resume, or choose another --checkpoint.")
        tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise _unwritable(file.parent, error.strerror, "--checkpoint") from None


def _runs(parent: Path, name: str) -> list[Path]:
    try:
        return [path for path in parent.glob(f"{name}-*") if path.name.removeprefix(f"{name}-").isdecimal()]
    except OSError:  # a name that is too long, say; making the folder will say what is wrong
        return []


def _unwritable(folder: Path, reason: str | None, option: str) -> UserError:
    return UserError(f"cannot write to {folder} ({reason}): choose another place with {option}.")


class Interrupt:
    """True once Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.requested = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def finish_step_on_interrupt() -> Iterator[Interrupt]:
    """Turns the first Ctrl-C into a flag to test between steps: in mid-step, weights and optimizer disagree.

    A second Ctrl-C stops at once, as Python does by itself; but not within ECHO_S of the first: where Slurm signals
    every process of a job, a rank gets the signal from it and once more from torchrun, and both mean one request.
    """
    interrupt = Interrupt()
    first = 0.0

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal first
        if not interrupt.requested:
            interrupt.requested, first = True, time.monotonic()
        elif time.monotonic() - first > ECHO_S:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
