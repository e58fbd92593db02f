"""The clock of time limits, which does not count the time in which processes wait for a core."""

import os
import subprocess
import sys
import time

import pytest
import torch.distributed as dist

from rankzero.learn.distributed.work_clock import WorkClock, descendants
from rankzero.learn.distributed.world import WorldTimeoutError, run_world


class Machine:
    """Stands in for time and the kernel's counts: the seconds that passed, and that each thread ran and waited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time, self.threads = 100.0, dict[str, tuple[int, int]]()
        monkeypatch.setattr(time, "monotonic", lambda: self.time)
        monkeypatch.setattr(WorkClock, "_read", lambda clock: dict(self.threads))

    def step(self, seconds: float, **threads: tuple[float, float]) -> None:
        self.time += seconds
        for thread, (ran, waited) in threads.items():
            before = self.threads.get(thread, (0, 0))
            self.threads[thread] = before[0] + int(ran * 1e9), before[1] + int(waited * 1e9)


def test_the_clock_stands_still_while_the_thread_that_waits_longest_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.step(0, a=(0.0, 50.0))  # before the clock begins
    clock = WorkClock(list)
    for seconds, threads, counted in (
        (1, {"a": (1.0, 0.0)}, 1.0),
        (1, {"a": (0.25, 0.25), "b": (0.1, 0.5)}, 0.5),
        (1, {"c": (0.0, 0.75)}, 0.25),  # a new process
        (1, {"c": (0.0, 1.0)}, 0.1),  # a tenth of the time is counted always
        (1, {"a": (0.4, 0.6), "b": (0.4, 0.6)}, 0.8),  # they ran for so long between them
        (1, {f"thread {n}": (0.125, 0.875) for n in range(16)}, 1.0),  # as on two cores without any other process
        (10, {}, 10.0),
    ):
        before = clock.now()
        machine.step(seconds, **threads)
        assert clock.now() - before == pytest.approx(counted)
    assert clock.waited == pytest.approx(16 - 13.65)


def test_the_clock_looks_ten_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    clock = WorkClock(list)
    begin = clock.now()
    machine.step(0.05, a=(0.0, 0.04))
    assert clock.now() - begin == pytest.approx(0.05)
    machine.step(0.06)
    assert clock.now() - begin == pytest.approx(0.07)


def compute(seconds: float) -> float:
    """Computes for this many CPU seconds; returns the seconds that passed."""
    dist.barrier()
    began, until = time.monotonic(), time.process_time() + seconds
    while time.process_time() < until:
        pass
    dist.barrier()
    return time.monotonic() - began


@pytest.mark.real
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not count waits")
def test_ranks_that_share_a_core_with_seven_others_meet_a_limit_that_they_meet_alone() -> None:
    everything = os.sched_getaffinity(0)
    endless = [sys.executable, "-c", "while True: pass"]
    os.sched_setaffinity(0, {min(everything)})
    others = []
    try:
        alone = max(run_world(compute, 1, 0.5, seconds=5.0, start="fork"))
        others = [subprocess.Popen(endless) for _ in range(7)]
        assert set(descendants(os.getpid())) >= {other.pid for other in others}
        (beside,) = run_world(compute, 1, 0.5, seconds=alone + 1.0, start="fork")
        assert beside > alone + 1.0
        with pytest.raises(WorldTimeoutError, match=r"no answer after 0\.2 s"):
            run_world(compute, 1, 1.0, seconds=0.2, start="fork")
    finally:
        os.sched_setaffinity(0, everything)
        for other in others:
            other.kill()
            other.wait()
