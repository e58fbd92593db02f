"""Sharded checkpoints: a folder per saved step, `step-000100`, with files of every rank.

The folder is named `step-000100.partial` until every rank has written its files. `run.json` in it lists the step, the
settings and the size of every file, so that a truncated file is noticed before anything is loaded.
"""

import json
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rankzero.errors import UserError

NAME = re.compile(r"step-\d{6,}")
PARTIAL = ".partial"
FACTS = "run.json"


def partial_folder(run: Path, step: int) -> Path:
    """Returns the folder in which ranks write the checkpoint of a step until it is finished."""
    return run / f"step-{step:06d}{PARTIAL}"


def finish_folder(partial: Path, **facts: Any) -> Path:
    """Renames `partial`, to which every rank has written, in one atomic step; then removes older checkpoints.

    Called by one rank. `facts` are plain values, with "step" and "settings" among them. Returns the finished folder.
    """
    files = {file.name: file.stat().st_size for file in sorted(partial.iterdir()) if file.name != FACTS}
    (partial / FACTS).write_text(json.dumps(facts | {"files": files}), encoding="utf-8")
    for folder in (partial / FACTS, partial):
        _to_disk(folder)
    final = partial.with_name(partial.name.removesuffix(PARTIAL))
    partial.rename(final)
    _to_disk(final.parent)
    for old in final.parent.iterdir():
        if (NAME.fullmatch(old.name) and old != final) or old.name.endswith(PARTIAL):
            doomed = old if old.name.endswith(PARTIAL) else old.rename(old.with_name(old.name + PARTIAL))
            shutil.rmtree(doomed, ignore_errors=True)  # if killed here, no run resumes from a partial folder
    return final


def _to_disk(path: Path) -> None:
    """Flushes a file or folder to disk; otherwise a rename may be stored before the data of the renamed folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def newest_step_folder(run: Path) -> Path | None:
    """Returns the finished checkpoint of the largest step in a run's folder; None where there is none."""
    finished = [folder for folder in run.glob("step-*") if NAME.fullmatch(folder.name) and folder.is_dir()]
    return max(finished, key=lambda folder: int(folder.name.removeprefix("step-")), default=None)


def latest_step_folder(parent: Path, name: str) -> Path:
    """Returns the newest checkpoint of the newest run of `name` that has one. UserError where there is none."""
    runs = [run for run in parent.glob(f"{name}-*") if run.name.removeprefix(f"{name}-").isdecimal()]
    for run in sorted(runs, key=lambda run: int(run.name.rsplit("-", 1)[1]), reverse=True):
        if newest := newest_step_folder(run):
            return newest
    raise UserError(f"no run under {parent}/ has a checkpoint to resume from: name one with --resume PATH.")


def read_folder(path: Path, *, settings: Collection[str]) -> dict[str, Any]:
    """Returns the contents of `run.json` of the checkpoint in `path`, with the path under "path". Loads no tensor.

    `path` is the folder of a step, or of a run, whose newest step is taken. UserError where it is missing, not
    finished, truncated, or no checkpoint of this kind.
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
    known = isinstance(facts, dict) and {"step", "settings", "corpus_sha256", "files"} <= facts.keys()
    if not known or not set(settings) <= set(facts["settings"]) or type(facts["step"]) is not int:
        raise UserError(f"checkpoint {folder} was not written by this lab: resume from another, or start a new run.")
    for name, size in facts["files"].items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            raise UserError(f"checkpoint {folder} is damaged: {name} is missing or cut off. Resume from another.")
    return facts | {"path": folder}
