"""Lab 09, exercises: save a training run so that a kill costs little, and resume it bit for bit.

Six exercises, in the order of the page; BackgroundSaver calls the smaller `snapshot` before it. Replace the lines that
raise NotImplementedError, and keep the signatures. Add imports that you need at the top of the file.

    rankzero check 09                  # all of them
    rankzero check 09 save_durably     # one
    rankzero hint 09 save_durably      # when stuck
"""

import os
import random
import re
import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


# ------------------------------------------------------------------------------------------------------------ the file
def save_durably(path: Path, data: bytes) -> None:
    """Writes `data` to the file `path` so that a kill or a power cut leaves the old file or the new file, whole.

    Four steps, in this order: write the bytes to a file in the same folder whose name ends in ".partial"; put this file
    on disk with os.fsync; rename it to `path`, which replaces an old file; put the rename on disk with os.fsync of the
    folder. A partial file that a killed save has left is no obstacle. If a step up to the rename raises any exception,
    Ctrl-C included, the caller gets that same exception, the old file is unchanged, and no partial file is left. If the
    folder's fsync fails, the caller gets its exception, and the new file stays. Every file and folder that was opened
    is closed again.

    Read: handbook/checkpoints-and-faults.md, "Writing the files"; `man 2 fsync`
    """
    ### BEGIN SOLUTION
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    ### END SOLUTION


def newest_intact(folder: Path, read: Callable[[Path], Any]) -> tuple[int, Any] | None:
    """Returns the step and the content of the newest checkpoint in `folder` that is intact; None if there is none.

    A checkpoint is a file named step-N.pt, with its step N in decimal digits: step-10.pt is newer than step-9.pt. N
    has no leading zeros, and may be 0. Ignore other names (step-12.pt.partial, best.pt), subfolders, and all dates.
    `read(path)` returns the content of a file. If the file is damaged, it raises ValueError or OSError: continue with
    the next older checkpoint. Any other exception reaches the caller. Each file is read at most once, and no file is
    read after an intact one. No file is changed. A folder that does not exist holds no checkpoint.

    With step-9.pt and a damaged step-10.pt, returns (9, read(folder / "step-9.pt")).

    Read: handbook/checkpoints-and-faults.md, "Damaged files"
    """
    ### BEGIN SOLUTION
    matches = [re.fullmatch(r"step-([0-9]+)\.pt", file.name) for file in folder.glob("*")]
    for step in sorted((int(match[1]) for match in matches if match), reverse=True):
        try:
            return step, read(folder / f"step-{step}.pt")
        except (ValueError, OSError):
            continue
    return None
    ### END SOLUTION


# ------------------------------------------------------------------------------------------------------------ the state
def training_state(
    step: int,
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    scaler: torch.amp.GradScaler,
    average: nn.Module,
    sampler: Any,
) -> dict[str, Any]:
    """Returns everything that the steps after `step` depend on, as a dict of tensors and plain values.

    `average` is a module: the exponential moving average (EMA) of the model's weights. All objects have a state_dict().
    Add the states of four kinds of random generators: Python's `random`, NumPy's `np.random`, torch's on the CPU, and
    torch's on each GPU, if there are any. The tensors may be the live ones. torch.load with weights_only=True must load
    what torch.save writes for the state; it refuses NumPy arrays. Change nothing: the run continues as if it had not
    saved.

    Read: handbook/checkpoints-and-faults.md, "Contents of a checkpoint"
    """
    ### BEGIN SOLUTION
    _, keys, position, has_gauss, gauss = np.random.get_state()
    return {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": scaler.state_dict(),
        "average": average.state_dict(),
        "sampler": sampler.state_dict(),
        "python": random.getstate(),
        "numpy": [np.asarray(keys).tolist(), position, has_gauss, gauss],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),  # an empty list where there is no GPU
    }
    ### END SOLUTION


def restore_training_state(
    state: dict[str, Any],
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    scaler: torch.amp.GradScaler,
    average: nn.Module,
    sampler: Any,
) -> int:
    """Loads a state from `training_state` into newly made objects and into the random generators; returns its step.

    All later steps are then equal bit for bit to those of a run that was not interrupted.
    """
    ### BEGIN SOLUTION
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])
    average.load_state_dict(state["average"])
    sampler.load_state_dict(state["sampler"])
    random.setstate(state["python"])
    np.random.set_state(("MT19937", *state["numpy"]))
    torch.set_rng_state(state["torch"])
    torch.cuda.set_rng_state_all(state["cuda"])
    return int(state["step"])
    ### END SOLUTION


# --------------------------------------------------------------------------------------------------------- the moment
def run_until_stopped(
    step: Callable[[int], None], save: Callable[[int], None], done: int, last: int, every: int
) -> int:
    """Calls step(n) for n = done + 1, ..., last, or until SIGTERM comes; returns the last n, or `done` without a step.

    Calls save(n) after each step n that `every` divides, and after the last step, which is `last` or the step in which
    SIGTERM came. No step is saved twice, and nothing is saved if no step ran. A step or a save in which SIGTERM comes
    is finished first. The signal handler itself saves nothing, because it may run in the middle of an update. A second
    SIGTERM changes nothing. An exception of step or save reaches the caller, and nothing is saved after it. When the
    function ends, in whatever way, SIGTERM has its earlier handler again.

    done=0, last=10, every=4 saves after steps 4, 8 and 10. With a SIGTERM in step 6: after 4 and 6, and 6 is returned.

    Read: handbook/checkpoints-and-faults.md, "Stopping on request"
    """
    ### BEGIN SOLUTION
    stop = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal stop
        stop = True

    before = signal.signal(signal.SIGTERM, handle)
    try:
        saved = done
        while done < last and not stop:
            step(done + 1)
            done += 1
            if done % every == 0:
                save(done)
                saved = done
        if done != saved:
            save(done)
        return done
    finally:
        signal.signal(signal.SIGTERM, before)
    ### END SOLUTION


def snapshot(state: Any) -> Any:
    """Returns a copy of `state` on the CPU that shares no memory of a tensor, dict or list with `state`.

    `state` consists of dicts, lists, tuples, tensors of any real dtype and device, and plain values. The copy has the
    same keys in the same order; its lists are lists and its tuples are tuples. Its tensors are plain tensors (not
    Parameters) with the same values, dtype and shape, and need no gradient. Tensors that share memory in `state` (tied
    weights; a slice and its tensor) share memory in the copy too: each storage is copied once. `state` is not changed.

    Read: handbook/checkpoints-and-faults.md, "Saving while training goes on"
    """
    ### BEGIN SOLUTION
    storages: dict[int, torch.UntypedStorage] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, Tensor):
            storage = value.untyped_storage()
            if storage._cdata not in storages:
                storages[storage._cdata] = torch.UntypedStorage(storage.nbytes()).copy_(storage)
            empty = torch.empty(0, dtype=value.dtype)
            return empty.set_(storages[storage._cdata], value.storage_offset(), value.size(), value.stride())
        if isinstance(value, dict):
            return {key: copied(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)([copied(item) for item in value])
        return value

    return copied(state)
    ### END SOLUTION


class BackgroundSaver:
    """Writes states in a thread while training continues: one at a time, each as it was when `save` was called."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        """`write(state)` writes a state to disk, and raises an exception if it fails."""
        ### BEGIN SOLUTION
        self.write = write
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.pending: Future[None] | None = None
        ### END SOLUTION

    def save(self, state: Any) -> None:
        """Waits for the earlier write, takes a `snapshot` of `state`, and returns while a thread writes the snapshot.

        If the earlier write has failed, raises its exception and does not save `state`.
        """
        ### BEGIN SOLUTION
        self.wait()
        self.pending = self.thread.submit(self.write, snapshot(state))
        ### END SOLUTION

    def wait(self) -> None:
        """Returns when the latest write has ended. Raises its exception if it failed and `save` has not raised it."""
        ### BEGIN SOLUTION
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()
        ### END SOLUTION
