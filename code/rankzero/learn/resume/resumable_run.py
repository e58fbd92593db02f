"""Folder of a run that the same command starts or resumes: claimed, and cleaned of what a kill has left."""

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rankzero.errors import UserError
from rankzero.learn.distributed.sharded_checkpoint import (
    finished_folders,
    newest_step_folder,
    read_newest_intact,
    remove_partial_folders,
    set_aside,
)
from rankzero.learn.resume.log_repair import keep_log_until
from rankzero.learn.runs.run_folder import claim_folder, new_run_folder, wait_for_folder


def read_when_free(folder: Path, *, settings: Collection[str]) -> dict[str, Any] | None:
    """Returns what `read_newest_intact` does, or None without a checkpoint, once no other run uses `folder`.

    Another run, such as the rest of a killed one, would finish newer checkpoints, and delete the one that was chosen.
    """
    wait_for_folder(folder)
    return read_newest_intact(folder, settings=settings) if newest_step_folder(folder) else None


def open_run_folder(options: argparse.Namespace, lab: str, saved: dict[str, Any] | None) -> Path:
    """Returns the folder of `options.folder`, or a new one, ready to continue after `saved`; called by one rank.

    No other process can claim it until this one ends. Damaged checkpoints are set aside, with a sentence; partial ones
    are removed; the log ends where `saved` was written. UserError where another run has saved since `saved` was read.
    """
    folder = claim_folder(options.folder or new_run_folder(options.out, lab))
    damaged = saved["damaged"] if saved else []
    known = [path for path, _ in damaged] + ([saved["path"]] if saved else [])
    newest = finished_folders(folder)[: max(1, len(known))]
    if newest != known:
        raise UserError(f"another run has saved {newest[0].name} in {folder} meanwhile: start this run again.")
    step = saved["step"] if saved else 0
    for path, sentence in damaged:
        print(f"note    {sentence} It is now {set_aside(path).name}; the run continues from step {step}.")
    if saved:
        print(f"resume  from {saved['path']}")
        for name, value in saved["settings"].items():
            if str(now := getattr(options, name, value)) != str(value):
                print(f"note    --{name.replace('_', '-')} is {now} from now on; the checkpoint was saved with {value}")
    remove_partial_folders(folder)
    keep_log_until(folder / "log.jsonl", step)
    return folder
