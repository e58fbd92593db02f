"""Workspace: the learner's copy of a lab's exercises, made once; only `reset` replaces it, and keeps a backup."""

import ast
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise
from rankzero.exercises.study.progress import LabProgress, forget, of_lab, write_progress


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
    backup = _backup(file)
    file.write_bytes(lab.stubs.read_bytes())
    write_progress(lab.number, LabProgress(file=str(file)))
    return backup


def reset_exercise(lab: Lab, exercise: Exercise) -> Path:
    """Replaces the functions of one exercise by the stubs, other code stays; returns the backup of the file.

    A function that the file lacks is added at the end. UserError, before any change, if the file is no valid Python.
    """
    file = work_file(lab)
    lines, stubs = file.read_text(encoding="utf-8").splitlines(), lab.stubs.read_text(encoding="utf-8").splitlines()
    try:
        places = _functions(lines)
    except SyntaxError as error:
        advice = f"correct it, or reset the whole file with `rankzero reset {lab.number}`"
        raise UserError(f"{file}, line {error.lineno}: {error.msg}: {advice}.") from None
    for name, stub in _functions(stubs).items():
        if name in exercise.functions:
            place = places.get(name, range(len(lines), len(lines)))
            blank = [] if name in places else ["", ""]
            lines[place.start : place.stop] = [*blank, *stubs[stub.start : stub.stop]]
            places = _functions(lines)
    backup = _backup(file)
    write_atomically(file, "\n".join(lines) + "\n")
    forget(lab, [exercise.name])
    return backup


def _functions(lines: Sequence[str]) -> dict[str, range]:
    """Returns the lines of each function and class at the top level, with its decorators, by name."""
    return {
        node.name: range(min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1, node.end_lineno or 0)
        for node in ast.parse("\n".join(lines)).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def _backup(file: Path) -> Path:
    number = 1
    while (backup := file.with_name(f"exercises.backup-{number}.py")).exists():
        number += 1
    shutil.copy2(file, backup)
    return backup
