"""Measuring on a GPU: times by CUDA events, memory by the allocator's counters, and toy sizes for a rehearsal.

In a rehearsal (`rankzero gpu --rehearse`) the same code runs on the CPU with toy sizes. Its values mean nothing: it
shows that every measurement runs.
"""

import gc
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

REHEARSAL = "RANKZERO_GPU_REHEARSAL"  # an environment variable
SECONDS = "RANKZERO_GPU_SECONDS"  # an environment variable: the time for a claim that runs a program
SAMPLES = 7
SAMPLE_MS = 4.0  # a sample repeats a call until it lasts about that long, so that the clock's resolution does not count
T = TypeVar("T")


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest of several samples."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(samples: list[float]) -> "Spread":
        """Returns the spread of samples."""
        return Spread(statistics.median(samples), min(samples), max(samples))

    def inverse(self, factor: float) -> "Spread":
        """Returns factor / value: a rate from a time, for example."""
        return Spread(factor / self.median, factor / self.high, factor / self.low)

    def point(self, x: float | str) -> tuple[float | str, float, float, float]:
        """Returns the point of a chart at `x`."""
        return x, self.median, self.low, self.high


def rehearsing() -> bool:
    """Returns whether this is a rehearsal without a GPU."""
    return os.environ.get(REHEARSAL) == "1"


def gpu() -> torch.device:
    """Returns the GPU; the CPU in a rehearsal."""
    return torch.device("cpu" if rehearsing() else "cuda")


def pick(full: T, toy: T) -> T:
    """Returns `full` on a GPU and `toy` in a rehearsal."""
    return toy if rehearsing() else full


def seconds_left() -> float:
    """Returns the seconds that a program run by a claim may take: what the session has left, or 10 minutes."""
    return float(os.environ.get(SECONDS, "600"))


def synchronize() -> None:
    """Waits until the GPU has done what was queued."""
    if not rehearsing():
        torch.cuda.synchronize()


def free_memory() -> None:
    """Drops unreachable tensors, returns the allocator's cache to the device, and restarts the peak's count."""
    gc.collect()
    if not rehearsing():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def milliseconds(call: Callable[[], object], *, samples: int = SAMPLES) -> Spread:
    """Returns the milliseconds of one `call`, launch and work, over several samples after two warm-up calls."""
    for _ in range(2):
        call()
    once = _sample(call, 1)
    repeats = max(1, round(pick(SAMPLE_MS, 0.1) / max(once, 1e-3)))
    return Spread.of([_sample(call, repeats) for _ in range(pick(samples, 2))])


def _sample(call: Callable[[], object], repeats: int) -> float:
    """Returns the mean milliseconds of `repeats` calls, by CUDA events; by the host's clock in a rehearsal."""
    synchronize()
    if rehearsing():
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return 1e3 * (time.perf_counter() - begin) / repeats
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(repeats):
        call()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / repeats


def peak_mib(call: Callable[[], object]) -> float:
    """Returns the MiB by which the allocator's peak during `call` exceeds what was allocated before; 1 in a rehearsal.

    The call runs once before, so that libraries have their workspaces.
    """
    call()
    if rehearsing():
        return 1.0
    free_memory()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20
