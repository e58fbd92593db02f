"""Run folders: a new folder per run, and its newest checkpoint."""

import fcntl
import os
import tempfile
import time
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

from rankzero.errors import UserError
from rankzero.learn.runs.tracking import track_folder

SILENT_S = 1.0  # a killed run's last process may live this long: nothing is said about it
WAIT_S = 60.0  # in which a run that was asked to stop finishes its step and its save
CLAIM_S = 5.0  # shorter than the limit of a collective, in which the other ranks wait for the one that claims
_locks: list[TextIOWrapper] = []  # open until this process ends, in whatever way: then the kernel releases them


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
            track_folder(folder)
            return folder
        except FileExistsError:
            if not folder.is_dir():  # a file has the name of `parent`
                raise _unwritable(parent, "a file is in the way", "--out") from None
            number += 1  # another run made it since `_runs` was called
        except OSError as error:
            raise _unwritable(parent, error.strerror, "--out") from None


def claim_folder(folder: Path) -> Path:
    """Makes `folder` if it is missing, and keeps other processes from claiming it until this one ends; returns it.

    UserError where it cannot be written, or where another process still holds it after CLAIM_S.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a+")
        _lock(lock, fcntl.LOCK_EX, folder, CLAIM_S)
        with suppress(OSError):  # on a full disk the lock holds, and has no name
            lock.truncate(0)
            os.write(lock.fileno(), f"{os.getpid()}".encode())  # a run that waits names this process
    except OSError as error:
        raise _unwritable(folder, error.strerror, "--folder") from None
    _locks.append(lock)
    track_folder(folder)
    return folder


def wait_for_folder(folder: Path) -> None:
    """Waits until no process holds `folder`, and says so if that takes longer than SILENT_S. Makes no file.

    UserError where another process still holds it after WAIT_S.
    """
    try:
        lock = (folder / ".lock").open()
    except OSError:
        return  # nobody has claimed it, or it cannot be claimed, which `claim_folder` reports
    with lock:
        _lock(lock, fcntl.LOCK_SH, folder, WAIT_S)  # shared: the ranks of torchrun wait side by side


def _lock(lock: TextIOWrapper, kind: int, folder: Path, seconds: float) -> None:
    """Locks an open file. UserError, which names the process that holds it, after `seconds`."""
    start, said = time.monotonic(), bool(int(os.environ.get("LOCAL_RANK", "0")))  # local rank 0 speaks for all
    while True:
        try:
            return fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - start
        lock.seek(0)
        other = f"another run (process {lock.read().strip() or 'unknown'}) uses {folder}"
        if waited > seconds:
            raise UserError(f"{other}: wait for its end, end it, or choose another --folder.")
        if waited > SILENT_S and not said:
            print(f"wait    {other}: waiting for its end", flush=True)
            said = True
        time.sleep(0.05)


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
