"""Workspace: the learner's copy of a lab's exercises, made once and never overwritten."""

import shutil
from dataclasses import replace
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.study.progress import LabProgress, of_lab, write_progress


def start(lab: Lab, folder: Path | None = None) -> tuple[Path, bool, Path | None]:
    """Copies the stubs to `folder/lab-NN/exercises.py` and remembers the place; points and hints stay.

    Without a folder it is the copy of the last start, wherever one stands, and `work/` if there is none. Returns the
    file, whether it is new (one that is there already is left as it is), and the copy worked on before, if another.
    """
    known = of_lab(lab)
    before = Path(known.file) if known.file else None
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
    write_progress(lab.number, replace(known, file=str(file)))
    return file, new, before if before and before != file and before.exists() else None


def work_file(lab: Lab, named: Path | None = None) -> Path:
    """Returns the learner's file: `named`, or the file of the last `start`. UserError if it does not exist."""
    if named:
        file = named / "exercises.py" if named.is_dir() else named
        if not file.is_file():
            raise UserError(f"{file} does not exist: name your exercises.py, or make one with `rankzero start`.")
        return file
    known = of_lab(lab)
    if not known.file:
        raise UserError(f"lab {lab.number} is not started yet: `rankzero start {lab.number}` copies its exercises.")
    if not Path(known.file).is_file():
        raise UserError(
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
