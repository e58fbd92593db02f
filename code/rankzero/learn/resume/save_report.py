"""Reports of saves: why one failed, and what all of a run cost, each in one line."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from torch.distributed.checkpoint import CheckpointException

from rankzero.learn.distributed.sharded_checkpoint import newest_step_folder
from rankzero.learn.profiling.memory import MIB


def reason_of(error: BaseException, run: Path) -> str:
    """Returns the cause of a failed save into a run's folder, and how much space is free there.

    A CheckpointException's own text holds a traceback of each rank, and torch reports a full disk as a RuntimeError.
    """
    if isinstance(error, CheckpointException) and error.failures:
        error = next(iter(error.failures.values()))[0]
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    if isinstance(error, OSError) or "inline_container" in text:
        cause = (isinstance(error, OSError) and error.strerror) or "a file could not be written"
        text = f"{cause}; {shutil.disk_usage(run).free / MIB:,.1f} MiB are free in {run}"
    return text


def report_of_saves(run: Path, stalls: Sequence[float], on_disk: Sequence[float]) -> str:
    """Returns the number and size of a run's saves, for how long training waited, and when they were on disk.

    `stalls` and `on_disk` are seconds, of each save.
    """
    newest = newest_step_folder(run)
    if not newest or not on_disk:
        return "none"
    size = sum(file.stat().st_size for file in newest.iterdir()) / MIB
    stall, seconds = (1000 * sum(times) / len(times) for times in (stalls, on_disk))
    return f"{len(on_disk)} of {size:.1f} MiB; waited {stall:.0f} ms each, on disk after {seconds:.0f} ms"
