"""Lab 09, exercises: save a training run so that a kill at any moment costs little, and go on bit for bit.

Eleven small exercises, in the order of the page; the later ones call the earlier ones. Replace the lines that raise
NotImplementedError; keep the signatures. A float is Python's float, an int is Python's int, a list is a list. A stub
may need imports of your own: put them at the top.

    rankzero check 09                  # all of them
    rankzero check 09 save_durably     # one
    rankzero hint 09 save_durably      # when stuck
"""

import hashlib
import io
import math
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
    """Writes `data` into the file `path` so that a kill or a power cut leaves the old file or the new one, whole.

    The bytes go into a file of the same folder whose name ends in ".partial"; os.fsync puts this file on the disk; one
    rename gives it its name and replaces a file that is there; os.fsync of the folder puts the rename on the disk.
    The steps happen in this order. A partial file that a killed save has left is no obstacle. If writing, the first
    fsync or the rename fails, with whatever exception, the exception reaches the caller, the earlier file is as it was,
    and no partial file is left. If the fsync of the folder fails, its exception reaches the caller too. All files that
    are opened are closed.

    Read: handbook/checkpoints-and-faults.md, "Writing the files"; `man 2 fsync`
    """
    raise NotImplementedError("save_durably is not written yet. A hint: rankzero hint 09 save_durably")


def seal(state: dict[str, Any]) -> bytes:
    """The bytes of a checkpoint: a SHA-256 digest of 32 bytes, then what `torch.save` writes for `state`.

    The digest is that of all bytes after it. `state` holds tensors and plain values and stays as it is.

    Read: handbook/checkpoints-and-faults.md, "Damaged files"
    """
    raise NotImplementedError("seal is not written yet. A hint: rankzero hint 09 seal")


def unseal(data: bytes) -> dict[str, Any]:
    """The state in bytes that `seal` made, its tensors on the CPU.

    ValueError, and no other exception, for bytes that are damaged, truncated, too long or foreign, and for a file whose
    digest is right but which `torch.load` refuses with weights_only=True. No code in the file runs.
    """
    raise NotImplementedError("unseal is not written yet. A hint: rankzero hint 09 unseal")


def newest_intact(folder: Path, read: Callable[[Path], Any]) -> tuple[int, Any] | None:
    """The step and the content of the newest checkpoint in `folder` that can be read; None if there is none.

    A checkpoint is a file named step-N.pt, N its step in decimal digits (step-10.pt; step-010.pt never occurs), and
    step-10.pt is newer than step-9.pt. Other names (step-12.pt.partial, best.pt) and the dates of files play no part.
    `read(path)` returns a file's content, or raises ValueError or OSError if the file is damaged: then the next older
    checkpoint is read. Any other exception reaches the caller. No file is read after one that is intact, and none
    twice; files stay as they are. A folder that does not exist holds no checkpoint.

    With step-9.pt and a damaged step-10.pt, returns (9, read(folder / "step-9.pt")).

    Read: handbook/checkpoints-and-faults.md, "Damaged files"
    """
    raise NotImplementedError("newest_intact is not written yet. A hint: rankzero hint 09 newest_intact")


def steps_to_delete(val_losses: dict[int, float], keep: int) -> list[int]:
    """The steps whose checkpoints may be deleted, in ascending order.

    `val_losses` has the validation loss of each checkpoint by its step, in any order, and may be empty. The newest
    `keep` >= 1 stay, and so does the best of all, the one with the lowest loss; of equal losses the earliest step is
    the best. A loss may be nan, which is never the best. `val_losses` stays as it is.

    steps_to_delete({100: 2.5, 200: 2.1, 300: 2.2, 400: 2.3}, keep=2) is [100]: 200 is the best.

    Read: handbook/checkpoints-and-faults.md, "Deleting old checkpoints"
    """
    raise NotImplementedError("steps_to_delete is not written yet. A hint: rankzero hint 09 steps_to_delete")


# ------------------------------------------------------------------------------------------------------------ the state
class EpochSampler:
    """Draws each of n samples once per epoch, in a random order that is a function of (seed, epoch) alone.

    Global random generators (Python's, NumPy's, torch's) play no part and stay as they are. Two pairs (seed, epoch)
    give two orders: seed 1 in epoch 2 is not seed 2 in epoch 1.
    """

    def __init__(self, n: int, batch_size: int, seed: int) -> None:
        """`n` samples are numbered from 0; `batch_size` >= 1 may exceed n; `seed` >= 0."""
        raise NotImplementedError("EpochSampler is not written yet. A hint: rankzero hint 09 EpochSampler")

    def next_batch(self) -> Tensor:
        """The numbers of the next samples, int64 [batch_size]. A batch that an epoch cannot fill goes on with the next.

        With n = 5 and batch_size = 2, the third batch is the last sample of epoch 0 and the first of epoch 1.
        """
        raise NotImplementedError("EpochSampler is not written yet. A hint: rankzero hint 09 EpochSampler")

    def state_dict(self) -> dict[str, int]:
        """The sampler's place in the data, as a few ints by name: no list of samples, which grows with n."""
        raise NotImplementedError("EpochSampler is not written yet. A hint: rankzero hint 09 EpochSampler")

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on after the last sample that was drawn before `state`, which is of a sampler of the same n and seed.

        That sampler may have had another batch size: no sample is drawn twice in an epoch, and none is left out.
        `state` stays as it is.
        """
        raise NotImplementedError("EpochSampler is not written yet. A hint: rankzero hint 09 EpochSampler")


def training_state(
    step: int,
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    scaler: torch.amp.GradScaler,
    average: nn.Module,
    sampler: Any,
) -> dict[str, Any]:
    """Everything that the steps after `step` depend on, as tensors and plain values.

    `average` is an exponential moving average of the model, a module of its own. All objects have a state_dict(). The
    random generators are Python's `random`, NumPy's `np.random`, torch's on the CPU and torch's of each GPU, if there
    are any. The tensors may be the live ones. What `torch.save` writes for the state must load with weights_only=True,
    which refuses NumPy arrays. Nothing changes: the run goes on as if it had not saved.

    Read: handbook/checkpoints-and-faults.md, "Contents of a checkpoint"
    """
    raise NotImplementedError("training_state is not written yet. A hint: rankzero hint 09 training_state")


def restore_training_state(
    state: dict[str, Any],
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    scaler: torch.amp.GradScaler,
    average: nn.Module,
    sampler: Any,
) -> int:
    """Puts a state from `training_state` into freshly made objects and the random generators; returns its step.

    Later steps are equal bit for bit to those of a run that was never interrupted.
    """
    raise NotImplementedError(
        "restore_training_state is not written yet. A hint: rankzero hint 09 restore_training_state"
    )


# --------------------------------------------------------------------------------------------------------- the moment
def run_until_stopped(
    step: Callable[[int], None], save: Callable[[int], None], done: int, last: int, every: int
) -> int:
    """Runs the steps done + 1, ..., last as step(n), until SIGTERM asks to stop; returns the number of steps done.

    save(n) follows each step n that `every` divides, and the last step that runs, whether it is `last` or the step in
    which SIGTERM came; never the same step twice, and no save if no step ran. SIGTERM at any moment lets a step or a
    save under way finish. Nothing is saved inside the signal handler, where weights and optimizer may disagree. A
    second SIGTERM changes nothing. An exception of step or save reaches the caller, and nothing is saved after it.
    However the function ends, SIGTERM's earlier handler is back in place afterwards.

    With done=0, last=10, every=4 it saves after steps 4, 8 and 10; with a SIGTERM in step 6, after 4 and 6, returns 6.

    Read: handbook/checkpoints-and-faults.md, "Stopping on request"
    """
    raise NotImplementedError("run_until_stopped is not written yet. A hint: rankzero hint 09 run_until_stopped")


def snapshot(state: Any) -> Any:
    """A copy of `state` on the CPU that training can't change: no memory of a tensor or of a container is shared.

    `state` consists of dicts, lists, tuples, tensors of any dtype and device, and plain values; the copy has the same
    keys in the same order, with lists as lists and tuples as tuples. Its tensors are plain tensors with the same
    numbers, dtype and shape, and require no gradient. Tensors of `state` that share memory (tied weights; a part of a
    tensor and the whole) share it in the copy too: each storage is copied once. `state` stays as it is.

    Read: handbook/checkpoints-and-faults.md, "Saving while training goes on"
    """
    raise NotImplementedError("snapshot is not written yet. A hint: rankzero hint 09 snapshot")


class BackgroundSaver:
    """Writes states in a thread while training goes on: one at a time, each as it was when save was called."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        """`write(state)` puts a state on the disk, and raises an exception if it can't."""
        raise NotImplementedError("BackgroundSaver is not written yet. A hint: rankzero hint 09 BackgroundSaver")

    def save(self, state: Any) -> None:
        """Waits for the write before, takes a `snapshot` of `state`, and returns while a thread writes the snapshot.

        If the write before has failed, raises its exception, and does not save `state`.
        """
        raise NotImplementedError("BackgroundSaver is not written yet. A hint: rankzero hint 09 BackgroundSaver")

    def wait(self) -> None:
        """Returns when the last write is finished; raises its exception if it failed. An exception is raised once."""
        raise NotImplementedError("BackgroundSaver is not written yet. A hint: rankzero hint 09 BackgroundSaver")


# ------------------------------------------------------------------------------------------------------- the interval
def expected_seconds(work: float, interval: float, save: float, restart: float, between_failures: float) -> float:
    """Expected seconds of a run whose failures come at random, on average once in M = `between_failures` seconds.

    `work` seconds of training are cut into work / interval segments, perhaps a fraction; each consists of `interval`
    seconds of training and `save` seconds of saving. A failure costs the segment's time so far and `restart` seconds,
    in which nothing fails; then the segment begins again. Failures follow an exponential distribution, so a segment
    takes on average (M + restart) * (exp((interval + save) / M) - 1). Correct to nine digits also where M is 1e15 times
    the segment; M may be math.inf, which means no failures.

    Read: handbook/checkpoints-and-faults.md, "How often to save"; J. T. Daly, A higher order estimate of the optimum
    checkpoint interval, 2006
    """
    raise NotImplementedError("expected_seconds is not written yet. A hint: rankzero hint 09 expected_seconds")


def best_interval(save: float, between_failures: float) -> float:
    """Seconds of training between two saves for which `expected_seconds` is lowest, correct to six digits.

    It is the root of t = M * (1 - exp(-(t + save) / M)), between 0 and M = `between_failures`: find it by bisection.
    Where M is much longer than `save`, it comes close to Young's sqrt(2 * save * M), but M may be shorter than `save`.
    """
    raise NotImplementedError("best_interval is not written yet. A hint: rankzero hint 09 best_interval")
