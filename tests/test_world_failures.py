"""Failures in worlds of ranks: each is reported readably within seconds, and no process stays."""

import ctypes
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist
from warm_process import cold_starts
from worlds import be_patient, ranks_alive

from rankzero.errors import UserError
from rankzero.learn.distributed.rank import note_step
from rankzero.learn.distributed.rank_failures import is_complete, place_in_dump
from rankzero.learn.distributed.world import WorldError, run_world


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("has no text")


class Unreadable:
    def __reduce__(self) -> tuple[Any, ...]:
        return eval, ("1 / 0",)


class Receiver(torch.nn.Module):
    forward = staticmethod(dist.recv)


def raise_(error: BaseException) -> Any:
    raise error


def fails_in_backward() -> None:
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda gradient: gradient / (1 // 0))
    (x * 2).sum().backward()


def floods() -> None:
    while True:
        print("x" * 10_000)


def holds_the_interpreter() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


def reads_a_null_pointer() -> None:
    ctypes.string_at(0)


def closes_every_file() -> None:
    os.closerange(3, 500)
    time.sleep(10**6)


LONG_S = 300.0  # limit of a process that ends by itself
HERE = r"test_world_failures.py, line \d+, in "
FAILURES: dict[str, tuple[Callable[[], Any], str]] = {
    "an error without text": (lambda: raise_(SilentError()), rf": SilentError \({HERE}raise_\)"),
    "an endless text": (lambda: raise_(ValueError("y" * 10**7)), r": ValueError: y{500} … \("),
    "a gradient of None": (lambda: dist.all_reduce(None), ": TypeError: .* but got <class 'NoneType'> instead"),
    "an error in backward": (fails_in_backward, rf": ZeroDivisionError: .* \({HERE}<lambda>\)"),
    "sys.exit": (lambda: sys.exit(2), ": SystemExit: 2"),
    "a value that cannot be sent": (threading.Lock, r": its value cannot be sent \(TypeError: cannot pickle"),
    "a value that cannot be read": (Unreadable, r": its value cannot be read \(ZeroDivisionError"),
    "a crash in C": (reads_a_null_pointer, rf" was killed by SIGSEGV \(.*{HERE}reads_a_null_pointer\)"),
    "abort": (os.abort, " was killed by SIGABRT"),
    "no connection": (closes_every_file, " (was killed by SIGABRT|closed its connection)"),
    "a flood of prints": (floods, rf" was .*{HERE}floods"),
    "a loop in C": (holds_the_interpreter, rf" was inside match, called at {HERE}holds_the_interpreter"),
    "a stop": (lambda: os.kill(os.getpid(), signal.SIGSTOP), " was busy"),
    "a module that waits": (lambda: Receiver()(torch.ones(1), 0), f" was inside recv, called at {HERE}"),
    "a receive that nobody sends": (lambda: dist.recv(torch.ones(1), 0), f" was inside .*, called at {HERE}"),
}


WITHOUT_END = ("a flood of prints", "a loop in C", "a stop", "a receive that nobody sends", "a module that waits")
HANGS_TO_PROVE = ("a module that waits", "a flood of prints", "a receive that nobody sends")
# Each hang takes its limit, ten times the time in which a quiet machine starts two ranks.
HANGS = [
    pytest.param(name, marks=[pytest.mark.real, *[pytest.mark.prove] * (name in HANGS_TO_PROVE)])
    for name in WITHOUT_END
]


def one_rank_fails(fail: Callable[[], Any]) -> Any:
    note_step(4)
    return fail() if dist.get_rank() == 1 else dist.all_reduce(torch.ones(4))


@pytest.mark.parametrize("failure", [*(name for name in FAILURES if name not in WITHOUT_END), *HANGS])
def test_a_report_names_the_cause_and_no_process_or_file_stays(
    failure: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail, message = FAILURES[failure]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(WorldError) as caught:
        run_world(one_rank_fails, 2, fail, seconds=2 if failure in WITHOUT_END else None)
    assert re.search(rf"rank 1(, step 4:| of 2 at step 4){message}", str(caught.value)), caught.value
    assert ranks_alive() == []
    assert list(tmp_path.glob("rankzero-world-*")) == []


DUMP = """Current thread 0x00007f56c678f1d0 (most recent call first):
  File "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2657 in recv
  File "/home/ada/train.py", line 7 in receive
  File "/home/ada/rank_process.py", line 99 in _work
  File "/home/ada/rank_process.py", line 70 in run_rank
  File "/usr/lib/python3.11/multiprocessing/process.py", line 108 in run
"""


def test_a_dump_that_is_still_being_written_is_not_read() -> None:
    read = {place_in_dump(DUMP[:end]) for end in range(len(DUMP)) if is_complete(DUMP[:end])}
    assert read == {("inside recv, called at train.py, line 7, in receive", True)}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("fail", [SystemExit, lambda _: os.abort()])
def test_the_other_rank_is_reported_alike_whatever_it_notices_first(
    debug: bool, fail: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `debug` rank 0 loses its connection; with `debug` it may first notice that rank 1 is missing."""
    be_patient(monkeypatch)
    with pytest.raises(WorldError) as caught:
        run_world(one_rank_fails, 2, lambda: raise_(fail(1)), debug=debug)
    assert "rank 0, step 4: waited for rank 1, which did not complete the call (" in str(caught.value)


def trains_forever() -> None:
    x = torch.ones(100, requires_grad=True)
    for step in range(10**9):
        note_step(step)
        (x * 2).sum().backward()
        assert x.grad is not None
        dist.all_reduce(x.grad)


class KilledWhileRead:
    """A value that kills rank 1 while the rank reads what it is to run, before it joins."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _kill_rank_1_before_it_joins, (self.number,)


def _kill_rank_1_before_it_joins(number: int) -> None:
    frame = sys._getframe()
    while "payload" not in frame.f_locals or "number" not in frame.f_locals:  # of rank_process._work
        assert frame.f_back
        frame = frame.f_back
    if frame.f_locals["number"] == 1:
        os.kill(os.getpid(), number)


def killed_in_step_3(stage: str, number: int) -> None:
    """Trains on each rank; rank 1 gets a signal in step 3, at a stage of it."""

    def die(at: str) -> None:
        if (at, dist.get_rank(), step) == (stage, 1, 3):
            os.kill(os.getpid(), number)

    x = torch.ones(100, requires_grad=True)
    for step in range(10):
        note_step(step)
        die("before the step")
        y = x * 2
        y.register_hook(lambda gradient: die("in backward"))
        y.sum().backward()
        assert x.grad is not None
        sent = dist.all_reduce(x.grad, async_op=True)
        die("in a collective")
        sent.wait()
        die("after a collective")


STAGES = {
    "before it joins": signal.SIGABRT,
    "before the step": signal.SIGKILL,
    "in backward": signal.SIGSEGV,
    "in a collective": signal.SIGABRT,
    "after a collective": signal.SIGKILL,
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_rank_killed_at_any_stage_is_named(stage: str) -> None:
    number = STAGES[stage]
    at_step, read = (" at step 3", None) if stage != "before it joins" else ("", KilledWhileRead(number))
    with pytest.raises(WorldError, match=rf"^rank 1 of 2{at_step} was killed by {number.name}"):
        run_world(lambda stage, number, _: killed_in_step_3(stage, number), 2, stage, int(number), read)
    assert ranks_alive() == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(int(os.environ.get("RANKZERO_KILLS", "6"))))
def test_a_rank_killed_at_any_moment_is_named(seed: int) -> None:
    choice = random.Random(seed)
    number = choice.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
    moment = choice.uniform(0, 0.3)  # while the rank starts, joins, computes or communicates

    def kill() -> None:
        while not (ranks := ranks_alive()):
            time.sleep(0.001)
        time.sleep(moment)
        with suppress(psutil.NoSuchProcess):
            choice.choice(ranks).send_signal(number)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(WorldError, match=rf"^rank \d of 2( at step \d+)? was killed by {number.name}"):
        run_world(trains_forever, 2)
    killer.join()
    assert ranks_alive() == []


def test_processes_that_a_rank_has_started_end_with_the_rank() -> None:
    command = ["sleep", str(10**6 + os.getpid())]  # no other run of this test has it

    def starts_a_process() -> None:
        subprocess.Popen(command)
        raise ValueError("and fails")

    with pytest.raises(WorldError, match="and fails"):
        run_world(starts_a_process, 2)
    sleeping = [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == command]
    assert psutil.wait_procs(sleeping, timeout=LONG_S)[1] == []


def test_the_real_error_is_reported_before_a_not_implemented_error() -> None:
    def fail() -> None:
        raise ValueError("real") if dist.get_rank() else NotImplementedError("refused")

    with pytest.raises(WorldError, match=r"^rank 1 of 2: ValueError: real .*\n  rank 0: NotImplementedError: refused"):
        run_world(fail, 2)


@pytest.mark.parametrize("ranks", [0, -1, 1000])
def test_an_impossible_number_of_ranks_is_refused(ranks: int) -> None:
    with pytest.raises(UserError, match=f"^{ranks} ranks: use 1 to 64"):
        run_world(dist.get_rank, ranks)


# --------------------------------------------------------------------------------------------------------- environment
def test_ranks_see_the_environment_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    run_world(dist.get_rank, 1)  # starts the fork server
    monkeypatch.setenv("RANKZERO_LATER", "set")
    assert run_world(lambda: os.environ.get("RANKZERO_LATER"), 1) == ["set"]
    monkeypatch.delenv("RANKZERO_LATER")
    assert run_world(lambda: os.environ.get("RANKZERO_LATER"), 1) == [None]


def test_a_wrong_interface_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nope0")
    with pytest.raises(WorldError, match="no network interface 'nope0': is GLOO_SOCKET_IFNAME right"):
        run_world(dist.get_rank, 2)


def test_a_missing_folder_for_temporary_files_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    with pytest.raises(UserError, match="set TMPDIR"):
        run_world(dist.get_rank, 2)


def test_several_threads_can_run_worlds() -> None:
    main, results = sys.modules["__main__"], []
    threads = [threading.Thread(target=lambda: results.append(run_world(dist.get_rank, 2))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[0, 1]] * 3
    assert sys.modules["__main__"] is main


@pytest.mark.prove
def test_a_rank_can_run_a_world() -> None:
    assert run_world(lambda: run_world(dist.get_rank, 2), 1) == [[0, 1]]


def test_long_and_unfinished_lines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def prints() -> None:
        if dist.get_rank() == 0:
            print("é" * 50_001)
        else:
            print("no end of line", end="")

    run_world(prints, 2)
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "[rank 1] no end of line", "é" * 50_001]


@pytest.mark.prove
def test_a_world_runs_without_standard_output() -> None:
    program = "from rankzero.learn.distributed.world import run_world; run_world(lambda: print('x'), 2)"
    command = f'exec "{sys.executable}" -c "{program}" >&-'
    assert subprocess.run(["sh", "-c", command], capture_output=True, timeout=LONG_S).returncode == 0


# -------------------------------------------------------------------------------------------------- the parent process
WORLDS = """
import torch, torch.distributed as dist
from rankzero.learn.distributed.world import run_world
def work(says):
    for number in range(says or 100):
        dist.all_reduce(torch.ones(10))
        if says and number == 50 and dist.get_rank() == 0:
            print("in a collective", flush=True)
try:
    run_world(work, 2, 0)
    print("at the start of a world", flush=True)
    run_world(work, 2, 10**9, seconds=None)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.prove
@pytest.mark.real
@pytest.mark.parametrize(
    ("moment", "to_group"),
    [
        ("at the start of a world", False),
        ("at the start of a world", True),
        ("in a collective", False),
        ("in a collective", True),
    ],
)
def test_ctrl_c_ends_a_world_at_any_moment(tmp_path: Path, moment: str, to_group: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(WORLDS)
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with cold_starts():
        process = subprocess.Popen([sys.executable, str(script)], **pipes, text=True, start_new_session=True)
    assert process.stdout
    while (line := process.stdout.readline()) != f"{moment}\n":
        assert line
    family = psutil.Process(process.pid).children(recursive=True)
    (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=LONG_S)
    assert out.removeprefix("in a collective\n") == "interrupted\n"
    _, alive = psutil.wait_procs(family, timeout=LONG_S)
    assert not alive
