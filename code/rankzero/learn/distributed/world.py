"""Worlds of ranks: a function run in several processes; a dead, failed or silent rank ends the world, with one report.

`torchrun` starts ranks for a script; `run_world` starts them for a function, from a script, a notebook's cell, a check
or a test. A fork server imports torch once, so that a world of two ranks takes 0.05 s to start; it runs no tensor
operation, so forking it is safe. The parent process watches the ranks, and the failure or silence of a rank becomes
one report about all of them.
"""

import codecs
import contextlib
import math
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rankzero.errors import UserError
from rankzero.learn.distributed.quiet_children import children_ignore_ctrl_c
from rankzero.learn.distributed.rank_failures import (
    LOST,
    MISSED,
    NO_CALL,
    NO_END,
    is_complete,
    place_in_dump,
    summary_of,
)
from rankzero.learn.distributed.rank_process import KINDS, NOT_UP, STOP_SIGNALS, WHERE_SIGNAL, run_rank
from rankzero.learn.distributed.socket_folder import shorten_socket_paths
from rankzero.learn.distributed.work_clock import WorkClock

MOST_RANKS = 64
KILLED_BY = "was killed by "
GRACE_S = 1.0  # time in which other ranks may still reply after a rank has failed
LOOK_S = 0.1  # longest wait between two checks for Ctrl-C and SIGTERM


class WorldError(RuntimeError):
    """A failed world. The text names rank, step and cause, and the places of the other ranks.

    `cause` is the same for the same mistake in any line, whichever rank fails first.
    """

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause


class WorldTimeoutError(WorldError):
    """A world that was not finished in time."""


@dataclass
class Rank:
    """The parent process's record of one rank."""

    number: int
    process: BaseProcess
    replies: Connection
    prints: Connection
    status: str = "running"  # then: done, raised, died or stuck
    value: Any = None
    reason: str = ""  # why the rank is not done
    error_type: str = ""  # name of the type of the error that the rank raised
    place: str = ""  # line of the user's code
    consequence: bool = False  # the rank failed, or waits, because of another rank's failure
    interrupted: bool = False  # Ctrl-C or SIGTERM reached the rank, which finished nevertheless
    unfinished_line: str = field(default="", repr=False)  # printed so far, without its newline
    last_output: str = field(default="", repr=False)  # the last 1,000 characters printed
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), repr=False
    )


def run_world(
    function: Callable[..., Any],
    ranks: int,
    *args: Any,
    seconds: float | None = 60.0,
    device: str = "cpu",
    debug: bool = False,
    start: str = "forkserver",
    collective_seconds: float | None = None,
    idle_seconds: float = math.inf,
) -> list[Any]:
    """Calls `function(*args)` in each of `ranks` processes with a process group; returns their values, by rank.

    The group is gloo's on the CPU and NCCL's on CUDA. `debug` lets c10d compare the calls of the ranks, which names a
    mismatch and doubles the time of a collective; DDP of torch 2.13 crashes in such a group. The world is ended after
    `seconds` (None: never), not counting waits for a core, and after `idle_seconds` in which all ranks sleep: they wait
    for each other, if they wait for nothing else. A collective fails that waits for
    `collective_seconds`, by default the backend's limit in rank.py. Rank 0's output is printed here; lines of other
    ranks begin with [rank N].

    WorldError if a rank raises, dies or hangs. If all failed ranks raise UserError or NotImplementedError, that error
    is raised here. No process is left behind in any case.
    """
    if not 1 <= ranks <= MOST_RANKS:
        raise UserError(f"{ranks} ranks: use 1 to {MOST_RANKS}.")
    context = process_context(start)
    folder = _new_folder()
    steps = context.RawArray("q", [NOT_UP] * ranks)  # of each rank, written by the rank
    settings: dict[str, Any] = {"device": device, "debug": debug, "ranks": ranks, "forked": start == "fork"}
    settings["collective_seconds"] = collective_seconds
    settings["on_terminal"] = sys.stderr.isatty()
    settings["environment"] = dict(os.environ)  # a fork server keeps the environment of the time when it started
    payload = (function, args) if start == "fork" else _pickled((function, args))
    world: list[Rank] = []
    with _signals_held() as signals:
        try:
            for number in range(ranks):
                world.append(_start(context, number, payload, folder, steps, settings))
            passed_on = _watch(world, steps, folder, seconds, idle_seconds, signals)
        finally:
            _end(world, start)
            shutil.rmtree(folder, ignore_errors=True)
    killed = any(rank.reason == f"{KILLED_BY}{signal.SIGTERM.name}" for rank in world)
    too_late = not any(rank.interrupted or rank.status != "done" for rank in world)
    if passed_on and (too_late or (killed and passed_on == signal.SIGTERM)):
        signal.raise_signal(passed_on)  # no rank has finished because of it, so this process does what it would alone
    if any(rank.status != "done" for rank in world):
        _raise(world, list(steps), seconds)
    return [rank.value for rank in world]


def _new_folder() -> Path:
    """Makes the folder for the store through which ranks find each other, and for the ranks' stack dumps."""
    try:
        return Path(tempfile.mkdtemp(prefix="rankzero-world-"))
    except OSError as error:
        raise UserError(f"ranks need a folder for temporary files ({error}): set TMPDIR to one.") from None


@contextlib.contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Collects each Ctrl-C and SIGTERM in a list; what is left in the list at the end has its usual effect then.

    A KeyboardInterrupt between the start of a process and its entry in the list of ranks would leave a process behind.
    """
    signals: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other thread handles signals
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    held = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in held:
        signal.signal(number, lambda number, frame: signals.append(number))
    try:
        yield signals
    finally:
        for number in held:
            signal.signal(number, before[number])
        if signals:
            signal.raise_signal(signals[0])


def _end(world: list[Rank], start: str) -> None:
    """Kills the ranks that still run, with their child processes, and prints their remaining output."""
    for rank in world:
        rank.process.kill()
        if start != "fork":  # a forked rank is in its parent's process group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(rank.process.pid or 0, signal.SIGKILL)
    for rank in world:
        rank.process.join()
        _forward_prints(rank, ended=True)
        rank.replies.close()
        rank.prints.close()


def process_context(start: str) -> Any:
    """Returns the multiprocessing context of a start method; a fork server preloads the modules of ranks."""
    context = multiprocessing.get_context(start)
    if start == "forkserver":
        shorten_socket_paths()
        context.set_forkserver_preload(["rankzero.learn.distributed.fork_server"])
        with children_ignore_ctrl_c():
            forkserver.ensure_running()
    return context


def _pickled(value: Any) -> bytes:
    """Pickles `value`; functions of a notebook, a script or a file loaded by its path go by value."""
    import cloudpickle  # here, so that starters under torchrun do without it

    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        in_package = getattr(sys.modules.get(name.split(".")[0]), "__file__", None) if "." in name else None
        single_file = not in_package and file.endswith(".py") and not file.endswith("__init__.py")
        if single_file and name != "__main__" and str(Path(file).parents[name.count(".")]) not in sys.path:
            cloudpickle.register_pickle_by_value(module)
    return bytes(cloudpickle.dumps(value))


_starting = threading.Lock()


@contextlib.contextmanager
def empty_main_module() -> Iterator[None]:
    """Keeps new processes from importing the running script again: its functions are in the payload."""
    with _starting:  # one thread at a time: a second thread would take the empty module for the script
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def _start(
    context: Any, number: int, payload: Any, folder: Path, steps: Sequence[int], settings: dict[str, Any]
) -> Rank:
    (replies, replies_in), (prints, prints_in) = context.Pipe(duplex=False), context.Pipe(duplex=False)
    if sys.stdout:
        sys.stdout.flush()
    process = context.Process(target=run_rank, args=(number, payload, folder, steps, settings, replies_in, prints_in))
    with empty_main_module():
        process.start()
    replies_in.close()
    prints_in.close()
    os.set_blocking(prints.fileno(), False)
    return Rank(number, process, replies, prints)


# ------------------------------------------------------------------------------------------------------ watching ranks
def _watch(
    world: list[Rank], steps: Sequence[int], folder: Path, seconds: float | None, idle: float, signals: list[int]
) -> int:
    """Waits until all ranks are done: at most GRACE_S after the first failure, `seconds` in all, `idle` without work.

    Passes the first Ctrl-C or SIGTERM on to the ranks, and returns its number; 0 if none came. A later Ctrl-C raises
    KeyboardInterrupt; a later SIGTERM is the same request.
    """
    clock = WorkClock(lambda: [rank.process.pid or 0 for rank in world if rank.status == "running"])
    deadline = math.inf if seconds is None else clock.now() + seconds
    passed_on = 0
    while running := [rank for rank in world if rank.status == "running"]:
        remaining = math.inf if deadline == math.inf else deadline - clock.now()  # without a limit, do not look
        # Where a rank is done, the others that wait for it soon notice that it has left.
        if remaining <= 0 or (clock.idle >= idle and len(running) == len(world) and NOT_UP not in steps):
            _locate_stuck_ranks(running, folder, clock)
            break
        _handle_next_event(running, folder, min(LOOK_S, remaining))
        if passed_on and signals:
            again, signals[:] = signal.SIGINT in signals, []
            if again:
                raise KeyboardInterrupt
        if signals and NOT_UP not in steps:
            passed_on, signals[:] = signals[0], []  # a rank that handles the signal may finish its step, and save
            for rank in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.process.pid or 0, passed_on)
        failed = any(rank.status in ("raised", "died") for rank in world)
        if failed:
            deadline = min(deadline, clock.now() + GRACE_S)
    return passed_on


def _handle_next_event(running: list[Rank], folder: Path, seconds: float) -> None:
    """Waits at most `seconds` for output, a reply or the end of a rank, and notes it."""
    ready = wait([source for rank in running for source in (rank.replies, rank.prints, rank.process.sentinel)], seconds)
    for rank in running:
        if rank.prints in ready:
            _forward_prints(rank)
        if rank.replies in ready or rank.process.sentinel in ready:
            _note_reply(rank, folder)


def _note_reply(rank: Rank, folder: Path) -> None:
    try:
        if rank.replies.poll():
            reply = rank.replies.recv_bytes()
            try:
                rank.status, *rest = pickle.loads(reply)
            except Exception as error:
                rank.status, rest = "raised", ["", f"its value cannot be read ({summary_of(error)})", "", False]
            if rank.status == "done":
                rank.value, rank.interrupted = rest
            else:
                rank.error_type, rank.reason, rank.place, rank.consequence = rest
            return
    except (EOFError, OSError):
        pass
    rank.status = "died"
    rank.process.join(GRACE_S)
    if rank.process.exitcode is None:
        rank.reason = "closed its connection to the process that started it"
        return
    _forward_prints(rank)
    code = rank.process.exitcode
    rank.reason = f"{KILLED_BY}{signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    rank.place, _ = place_in_dump(_dump(rank, folder))
    if "Received data size doesn't match" in rank.last_output:  # gloo ends the process that is sent too much
        rank.reason += ", since another rank sent more: do all call the same collective, with the same shape?"


def _dump(rank: Rank, folder: Path) -> str:
    """Returns the stack dump that a rank has written; empty if it has not."""
    file = folder / f"rank-{rank.number}"
    return file.read_text(errors="replace") if file.exists() else ""


def _forward_prints(rank: Rank, *, ended: bool = False) -> None:
    """Prints the output of a rank, at most 100 chunks at a time; with `ended`, its unfinished line too."""
    with contextlib.suppress(BlockingIOError, OSError):
        for _ in range(100):
            chunk = os.read(rank.prints.fileno(), 65536)
            text = rank.decoder.decode(chunk)
            rank.last_output = (rank.last_output + text)[-1000:]
            if rank.number == 0:
                _print(text)
            else:
                *lines, rank.unfinished_line = (rank.unfinished_line + text).split("\n")
                _print("".join(f"[rank {rank.number}] {line}\n" for line in lines))
            if not chunk:
                break
    if ended and rank.unfinished_line:
        _print(f"[rank {rank.number}] {rank.unfinished_line}\n")


def _print(text: str) -> None:
    if text and sys.stdout:  # None in a process that was started without stdout
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()


def _locate_stuck_ranks(running: list[Rank], folder: Path, clock: WorkClock) -> None:
    """Marks each running rank as stuck and notes its place, from the stack dump that a signal makes it write."""
    for rank in running:
        rank.status, rank.reason = "stuck", "was"
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.process.pid or 0, WHERE_SIGNAL)
    until = clock.now() + GRACE_S
    for rank in running:
        while clock.now() < until and not is_complete(_dump(rank, folder)):
            time.sleep(0.01)
        place, rank.consequence = place_in_dump(_dump(rank, folder))
        rank.place = place or "busy"


def _raise(world: list[Rank], steps: list[int], seconds: float | None) -> NoReturn:
    """Raises the error that the failures of the ranks amount to."""
    failed = [rank for rank in world if rank.status in ("raised", "died") and not rank.consequence]
    if failed and all(rank.error_type in KINDS for rank in failed):
        raise KINDS[failed[0].error_type](failed[0].reason)
    cause = min((rank for rank in world if rank.status != "done"), key=_distance_from_cause)
    finished = ", ".join(str(rank.number) for rank in world if rank.status == "done")
    if cause.reason == LOST and finished:  # every other failed rank reports the same
        cause.reason = f"{MISSED} {finished}{NO_CALL}"
    for rank in world:  # c10d reports a lost connection or a missing rank, whichever it notices first
        if not cause.consequence and (rank.reason == LOST or rank.reason.startswith(MISSED)):
            rank.reason = f"{MISSED} {cause.number}{NO_END}"
    when = f" at step {steps[cause.number]}" if steps[cause.number] >= 0 else ""
    timed_out = all(rank.status in ("stuck", "done") for rank in world)
    text = f"rank {cause.number} of {len(world)}{when}{':' if cause.status == 'raised' else ''} {_failure_of(cause)}"
    if timed_out:
        text = f"no answer after {seconds:g} s: {text}"
    for rank in world:
        if rank is not cause:
            step = f", step {steps[rank.number]}" if steps[rank.number] >= 0 else ""
            text += f"\n  rank {rank.number}{step}: {'was done' if rank.status == 'done' else _failure_of(rank)}"
    if timed_out:
        raise WorldTimeoutError(text, "late")
    raise WorldError(text, cause.reason)


def _distance_from_cause(rank: Rank) -> int:
    """Returns the distance of a failure from the cause, 0 is nearest: a rank's death may cause a UserError."""
    return {"died": 0, "raised": 1, "stuck": 3}[rank.status] + (rank.error_type in KINDS) + 4 * rank.consequence


def _failure_of(rank: Rank) -> str:
    if rank.status == "stuck":
        return f"was {rank.place}"
    text = f"{rank.error_type}: {rank.reason}" if rank.error_type in KINDS else rank.reason
    return f"{text} ({rank.place})" if rank.place else text
