"""Sharded checkpoints: a folder per saved step, `step-000100`, with files of every rank.

The folder is named `step-000100.partial` until every rank has written its files. `run.json` in it lists the step, the
settings, and the size and SHA-256 digest of every file, so that a truncated file or a flipped bit is noticed before
anything is loaded.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rankzero.errors import UserError

NAME = re.compile(r"step-\d{6,}")
PARTIAL, DAMAGED = ".partial", ".damaged"
FACTS = "run.json"


def partial_folder(run: Path, step: int) -> Path:
    """Returns the folder in which ranks write the checkpoint of a step until it is finished."""
    return run / f"step-{step:06d}{PARTIAL}"


def finish_folder(partial: Path, *, keep: int = 1, best_by: str | None = None, **facts: Any) -> Path:
    """Renames `partial`, to which every rank has written, in one atomic step; then removes older checkpoints.

    Called by one rank. `facts` are plain values, with "step" and "settings" among them. The newest `keep` checkpoints
    stay, and the one whose fact `best_by` is smallest. Returns the finished folder.
    """
    files = [file for file in sorted(partial.iterdir()) if file.name != FACTS]
    facts |= {"files": {file.name: file.stat().st_size for file in files}}
    facts |= {"sha256": {file.name: _digest(file) for file in files}}
    (partial / FACTS).write_text(json.dumps(facts | {"digest": _digest_of_facts(facts)}), encoding="utf-8")
    for path in (partial / FACTS, partial):
        _to_disk(path)
    final = partial.with_name(partial.name.removesuffix(PARTIAL))
    partial.rename(final)
    _to_disk(final.parent)
    for old in _superfluous(final.parent, keep, best_by):
        doomed = old if old.name.endswith(PARTIAL) else old.rename(old.with_name(old.name + PARTIAL))
        shutil.rmtree(doomed, ignore_errors=True)  # if killed here, no run resumes from a partial folder
    return final


def remove_partial_folders(run: Path) -> None:
    """Removes what killed saves have left in a run's folder; called before a run writes there."""
    for partial in run.glob(f"step-*{PARTIAL}"):
        shutil.rmtree(partial, ignore_errors=True)


def _superfluous(run: Path, keep: int, best_by: str | None) -> list[Path]:
    finished = finished_folders(run)
    kept = set(finished[:keep])
    if best_by:
        values = {folder: _fact(folder, best_by) for folder in finished}
        known = {folder: value for folder, value in values.items() if isinstance(value, float)}
        if known:
            kept.add(min(known, key=lambda folder: known[folder]))  # of equal ones the newest
    return [folder for folder in finished if folder not in kept] + list(run.glob(f"step-*{PARTIAL}"))


def _fact(folder: Path, name: str) -> Any:
    try:
        return json.loads((folder / FACTS).read_text(encoding="utf-8")).get(name)
    except (OSError, ValueError, AttributeError):
        return None  # a damaged checkpoint is nobody's best


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest_of_facts(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _to_disk(path: Path) -> None:
    """Flushes a file or folder to disk; otherwise a rename may be stored before the data of the renamed folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def finished_folders(run: Path) -> list[Path]:
    """Returns the finished checkpoints in a run's folder, newest first, damaged ones included."""
    finished = [folder for folder in run.glob("step-*") if NAME.fullmatch(folder.name) and folder.is_dir()]
    return sorted(finished, key=lambda folder: int(folder.name.removeprefix("step-")), reverse=True)


def newest_step_folder(run: Path) -> Path | None:
    """Returns the finished checkpoint of the largest step in a run's folder; None where there is none."""
    return next(iter(finished_folders(run)), None)


def latest_step_folder(parent: Path, name: str) -> Path:
    """Returns the newest checkpoint of the newest run of `name` that has one. UserError where there is none."""
    runs = [run for run in parent.glob(f"{name}-*") if run.name.removeprefix(f"{name}-").isdecimal()]
    for run in sorted(runs, key=lambda run: int(run.name.rsplit("-", 1)[1]), reverse=True):
        if newest := newest_step_folder(run):
            return newest
    raise UserError(f"no run under {parent}/ has a checkpoint to resume from: name one with --resume PATH.")


def read_newest_intact(run: Path, *, settings: Collection[str]) -> dict[str, Any]:
    """Returns the facts of the newest intact checkpoint in a run's folder, as `read_folder` does.

    Under "damaged" are the newer ones that are not intact, as (folder, sentence). UserError where none is intact: a
    run that started over without a word would look like one that went on.
    """
    damaged: list[tuple[Path, str]] = []
    for folder in finished_folders(run):
        try:
            return read_folder(folder, settings=settings) | {"damaged": damaged}
        except UserError as error:
            damaged.append((folder, str(error)))
    sentences = " ".join(sentence for _, sentence in damaged)
    raise UserError(f"no checkpoint in {run} is intact: choose another folder. {sentences}")


def set_aside(damaged: Path) -> Path:
    """Renames a damaged checkpoint, whose step will be saved again; returns its new path."""
    aside = damaged.with_name(damaged.name + DAMAGED)
    shutil.rmtree(aside, ignore_errors=True)
    return damaged.rename(aside)


def read_folder(path: Path, *, settings: Collection[str]) -> dict[str, Any]:
    """Returns the contents of `run.json` of the checkpoint in `path`, with the path under "path". Loads no tensor.

    `path` is the folder of a step, or of a run, whose newest step is taken. UserError where it is missing, not
    finished, truncated, changed in any bit, or no checkpoint of this kind.
    """
    folder = newest_step_folder(path) or path
    if not folder.is_dir():
        raise UserError(f"checkpoint {path} does not exist, or is no folder: name a step's folder, or a run's.")
    if folder.name.endswith(PARTIAL):
        raise UserError(f"checkpoint {folder} was never finished: resume from another, or start a new run.")
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"checkpoint {folder} is damaged, or is not a checkpoint: resume from another.") from None
    known = isinstance(facts, dict) and {"step", "settings", "corpus_sha256", "files", "sha256"} <= facts.keys()
    if not known or not set(settings) <= set(facts["settings"]) or type(facts["step"]) is not int:
        raise UserError(f"checkpoint {folder} was not written by this lab: resume from another, or start a new run.")
    if facts.pop("digest", None) != _digest_of_facts(facts):
        raise UserError(f"checkpoint {folder} is damaged: {FACTS} has another digest than when it was written.")
    for name, size in facts["files"].items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            raise UserError(
                f"checkpoint {folder} is damaged: {name} is missing, or has another size than when it was written."
            )
        if _digest(file) != facts["sha256"][name]:
            raise UserError(f"checkpoint {folder} is damaged: {name} has another digest than when it was written.")
    return facts | {"path": folder}
