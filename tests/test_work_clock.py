"""The clock of time limits, which does not count the time in which processes wait for a core."""

import functools
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
        self.time, self.threads, self.own, self.asleep = 100.0, dict[str, tuple[int, int]](), 0, False
        monkeypatch.setattr(time, "monotonic", lambda: self.time)
        monkeypatch.setattr(WorkClock, "_read", lambda clock: dict(self.threads))
        monkeypatch.setattr(WorkClock, "_own_wait", lambda clock: self.own)
        monkeypatch.setattr(WorkClock, "_all_sleep", lambda clock: self.asleep)

    def step(self, seconds: float, **threads: tuple[float, float]) -> None:
        self.time += seconds
        self.own += int(threads.pop("own", (0.0, 0.0))[1] * 1e9)  # of the thread that looks
        for thread, (ran, waited) in threads.items():
            before = self.threads.get(thread, (0, 0))
            self.threads[thread] = before[0] + int(ran * 1e9), before[1] + int(waited * 1e9)


def test_the_clock_stands_still_while_processes_wait_for_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.step(0, a=(0.0, 50.0))  # before the clock begins
    clock = WorkClock(list)
    for seconds, threads, counted in (
        (1, {"a": (1.0, 0.0)}, 1.0),
        (1, {"a": (0.1, 0.25), "b": (0.1, 0.5)}, 0.25),  # one after the other, as ranks that exchange messages
        (1, {"c": (0.0, 0.75)}, 0.25),  # a new process
        (1, {"c": (0.0, 1.0)}, 0.04),  # a part of the time is counted always
        (1, {"own": (0.0, 0.9), "c": (0.05, 0.0)}, 0.1),  # the look came late, and others have ended meanwhile
        (1, {"a": (0.4, 0.6), "b": (0.4, 0.6)}, 0.8),  # they ran for so long between them
        (1, {f"thread {n}": (0.125, 0.875) for n in range(16)}, 1.0),  # as on two cores without any other process
        (10, {}, 10.0),
    ):
        before = clock.now()
        machine.step(seconds, **threads)
        assert clock.now() - before == pytest.approx(counted)
    assert clock.waited == pytest.approx(17 - 13.44)


def test_processes_are_idle_only_while_all_sleep_and_none_works(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    clock = WorkClock(list)
    for ran, waited, asleep, idle in (
        (0.0, 0.0, True, 1.0),
        (0.001, 0.9, True, 2.0),  # a thread that polls, on a busy machine
        (0.001, 0.9, False, 2.0),  # ready to run, but it does not get a core, or waits for a disk: nobody knows yet
        (0.0, 0.0, True, 3.0),
        (0.5, 0.0, True, 0.0),
    ):
        machine.asleep = asleep
        machine.step(1, rank=(ran, waited))
        clock.now()
        assert clock.idle == pytest.approx(idle)


def test_a_process_that_sleeps_is_idle_and_one_that_computes_is_not() -> None:
    programs = ("import time; time.sleep(300)", "while True: pass")
    for program, idle in zip(programs, (True, False), strict=True):
        with subprocess.Popen([sys.executable, "-c", program]) as process:
            clock, looks = WorkClock(functools.partial(list, [process.pid])), 0
            while clock.idle < 0.5 and (idle or looks < 20):  # without end, if a process that sleeps is never idle
                time.sleep(0.1)
                clock.now()
                looks += 1
            process.kill()
        assert (clock.idle >= 0.5) == idle


def test_a_right_answer_meets_its_limit_beside_twenty_busy_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks compute in turns, 4 s in all, on a core that each of 21 processes has for a share of the time."""
    machine = Machine(monkeypatch)
    clock = WorkClock(list)
    begin, slice_s = clock.now(), 0.01
    for turn in range(400):  # a rank waits for 20 slices of others, then runs for one; its partner sleeps
        machine.step(21 * slice_s, **{f"rank {turn % 2}": (slice_s, 20 * slice_s)})
        clock.now()
    assert machine.time - 100 == pytest.approx(84)
    assert clock.now() - begin == pytest.approx(4)


def test_a_loop_a_sleep_and_a_deadlock_reach_their_limit_beside_busy_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    clock = WorkClock(list)
    for threads, speed in (
        ({"loop": (0.5, 0.5)}, 0.5),
        ({f"fork {n}": (0.1, 0.9) for n in range(20)}, 1.0),  # which take two cores from each other
        ({"asleep": (0.0, 0.0)}, 1.0),
    ):
        before = clock.now()
        for _ in range(10):
            machine.step(1, **threads)
            clock.now()
        assert clock.now() - before == pytest.approx(10 * speed)


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
