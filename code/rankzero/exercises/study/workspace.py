"""Workspace: the learner's copy of a lab's exercises, made once; only `reset` replaces it, and keeps a backup."""

import shutil
from dataclasses import replace
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.study.progress import LabProgress, of_lab, write_progress


def start(lab: Lab, folder: Path | None = None) -> tuple[Path, bool, Path | None]:
    """Copies the stubs to `folder/lab-NN/exercises.py` and records the place; points and hints stay.

    Without a folder, the place is that of the last start, or `work/` before the first. Returns the file, whether it is
    new (an existing file is not changed), and the copy of the last start if that copy is another file.
    """
    progress = of_lab(lab)
    before = Path(progress.file) if progress.file else None
    file = (
        before if before and not folder else (folder or Path("work")).resolve() / f"lab-{lab.number}" / "exercises.py"
    )
    new = not file.exists()
    try:
        if new:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as copy:
                copy.write(lab.stubs.read_bytes())
    except OSError as error:
        raise UserError(f"cannot write {file} ({error.strerror}): choose another folder with --folder.") from None
    write_progress(lab.number, replace(progress, file=str(file)))
    return file, new, before if before and before != file and before.exists() else None


def work_file(lab: Lab, named: Path | None = None) -> Path:
    """Returns the learner's file: `named`, or the file of the last `start`. UserError if it does not exist."""
    if named:
        path = named / "exercises.py" if named.is_dir() else named
        if not path.is_file():
            raise UserError(f"{path} does not exist: name your exercises.py, or make one with `rankzero start`.")
        return path
    file = of_lab(lab).file
    if not file:
        raise UserError(f"lab {lab.number} is not started yet: `rankzero start {lab.number}` copies its exercises.")
    if not Path(file).is_file():
        raise UserError(
            f"{file} is gone: `rankzero start {lab.number}` makes a new copy, or name your file with --file."
        )
    return Path(file)


def reset(lab: Lab) -> Path:
    """Replaces the learner's file by the untouched stubs; returns the backup of the learner's file."""
    file = work_file(lab)
    number = 1
    while (backup := file.with_name(f"exercises.backup-{number}.py")).exists():
        number += 1
    shutil.copy2(file, backup)
    file.write_bytes(lab.stubs.read_bytes())
    write_progress(lab.number, LabProgress(file=str(file)))
    return backup
