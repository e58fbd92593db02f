"""The learner's own copy of a lab's exercises: made once, never overwritten."""

import shutil
from dataclasses import replace
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.exercises.progress import LabProgress, read_progress, write_progress


class WorkspaceError(Exception):
    """The work folder is not as it should be; the text says what to do."""


def start(lab: Lab, folder: Path) -> tuple[Path, bool]:
    """Copies the stubs to `folder/lab-NN/exercises.py` and remembers the place.

    Returns the file, and whether it is new: a file that is there already is left as it is.
    """
    file = folder.resolve() / f"lab-{lab.number}" / "exercises.py"
    new = not file.exists()
    try:
        if new:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as copy:
                copy.write(lab.stubs.read_bytes())
    except OSError as error:
        raise WorkspaceError(f"cannot write {file} ({error.strerror}): choose another folder with --folder.") from None
    known = read_progress().get(lab.number, LabProgress())
    same = known.file == str(file)
    write_progress(lab.number, replace(known, file=str(file)) if same else LabProgress(file=str(file)))
    return file, new


def work_file(lab: Lab, named: Path | None = None) -> Path:
    """The learner's file: the one named, or the one of the last `start`."""
    if named:
        file = named / "exercises.py" if named.is_dir() else named
        if not file.is_file():
            raise WorkspaceError(f"{file} does not exist: name your exercises.py, or make one with `rankzero start`.")
        return file
    known = read_progress().get(lab.number)
    if not known or not known.file:
        raise WorkspaceError(
            f"lab {lab.number} is not started yet: `rankzero start {lab.number}` copies its exercises."
        )
    if not Path(known.file).is_file():
        raise WorkspaceError(
            f"{known.file} is gone: `rankzero start {lab.number}` makes a new copy, or name your file with --file."
        )
    return Path(known.file)


def reset(lab: Lab) -> Path:
    """Puts the untouched stubs in place of the learner's file and returns where that was kept."""
    file = work_file(lab)
    number = 1
    while (backup := file.with_name(f"exercises.backup-{number}.py")).exists():
        number += 1
    shutil.copy2(file, backup)
    file.write_bytes(lab.stubs.read_bytes())
    write_progress(lab.number, LabProgress(file=str(file)))
    return backup
