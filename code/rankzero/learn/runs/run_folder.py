"""Run folders: a new folder per run, and its newest checkpoint."""

import tempfile
from pathlib import Path

from rankzero.errors import UserError


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
