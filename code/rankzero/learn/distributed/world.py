"""Worlds of ranks: runs a function in several processes at once, and ends them all when one of them fails.

`torchrun` starts ranks for a script. This starts them for a function: from a script, a notebook's cell, a check or a
test. A fork server imports torch once, so that a world of two ranks costs a twentieth of a second; it has never run a
tensor operation, so that forking it is safe. Who started the ranks watches them, and a failure of one, or its silence,
becomes one report about all of them.
"""

import codecs
import contextlib
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
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import cloudpickle

from rankzero.errors import UserError
from rankzero.learn.distributed.rank_failures import LOST, place_in_dump, summary_of
from rankzero.learn.distributed.rank_process import KINDS, NOT_UP, WHERE_SIGNAL, live

MOST_RANKS = 64
GRACE_S = 1.0  # how long the other ranks may still speak after one has failed
LOOK_S = 0.1  # how often to look for Ctrl-C while nothing else happens


class WorldError(RuntimeError):
    """A world that failed. Its text names rank, step and cause, and says where the other ranks were.

    `cause` is the same for the same mistake, whichever line it stands in and whichever rank is the first to fail.
    """

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause


class WorldTimeoutError(WorldError):
    """A world that was not done in time."""


@dataclass
class Rank:
    """What is known of one rank."""

    number: int
    process: BaseProcess
    replies: Connection
    prints: Connection
    status: str = "running"  # then: done, raised, died or stuck
    value: Any = None
    says: str = ""  # why it is not done, and where it was
    kind: str = ""  # of what it raised
    place: str = ""  # where in the user's code
    consequence: bool = False  # it failed, or waits, only since another did
    interrupted: bool = False  # a Ctrl-C has reached it, and it is done nevertheless
    line: str = field(default="", repr=False)  # printed, without its end yet
    last: str = field(default="", repr=False)  # printed last
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
) -> list[Any]:
    """Calls `function(*args)` in each of `ranks` processes with a process group ready; returns their values, by rank.

    The group is gloo's on the CPU and NCCL's on CUDA. `debug` lets c10d compare what the ranks call, which names a
    mismatch and doubles the time of a collective; DDP of torch 2.13 crashes in such a group. After `seconds` (None:
    never) the world is ended. What rank 0 prints is printed here; other ranks' lines begin with [rank N].

    WorldError if a rank raises, dies or hangs; if all that fail raise the same UserError or NotImplementedError, that
    one. No process is left behind in any case.
    """
    if not 1 <= ranks <= MOST_RANKS:
        raise UserError(f"{ranks} ranks: use 1 to {MOST_RANKS}.")
    context = process_context(start)
    folder = _new_folder()
    steps = context.RawArray("q", [NOT_UP] * ranks)  # of each rank, as it notes them
    settings = {"device": device, "debug": debug, "ranks": ranks, "forked": start == "fork"}
    settings["environment"] = dict(os.environ)  # a fork server has that of its own start
    payload = (function, args) if start == "fork" else _pickled((function, args))
    world: list[Rank] = []
    with _interrupts_held() as interrupts:
        try:
            for number in range(ranks):
                world.append(_start(context, number, payload, folder, steps, settings))
            passed_on = _watch(world, steps, folder, seconds, interrupts)
        finally:
            _end(world, start)
            shutil.rmtree(folder, ignore_errors=True)
    if any(rank.status != "done" for rank in world):
        _raise(world, list(steps), seconds)
    if passed_on and not any(rank.interrupted for rank in world):
        raise KeyboardInterrupt  # it came when they were done
    return [rank.value for rank in world]


def _new_folder() -> Path:
    """For the store through which the ranks find each other, and for what they write down."""
    try:
        return Path(tempfile.mkdtemp(prefix="rankzero-world-"))
    except OSError as error:
        raise UserError(f"ranks need a folder for temporary files ({error}): set TMPDIR to one.") from None


@contextlib.contextmanager
def _interrupts_held() -> Iterator[list[int]]:
    """Collects Ctrl-C instead of raising KeyboardInterrupt anywhere: between a start and its note, say, it would leave
    a process behind. One that nobody has taken out of the list comes at the end."""
    held: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if main else None
    if not callable(before):  # elsewhere than in the main thread Ctrl-C never comes; or it is ignored
        yield held
        return
    signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            signal.raise_signal(signal.SIGINT)


def _end(world: list[Rank], start: str) -> None:
    """Ends what still runs, with all that it has started, and prints what was not printed yet."""
    for rank in world:
        rank.process.kill()
        if start != "fork":  # a rank that was forked is in the group of whoever did it
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(rank.process.pid or 0, signal.SIGKILL)
    for rank in world:
        rank.process.join()
        _forward_prints(rank, ended=True)
        rank.replies.close()
        rank.prints.close()


def process_context(start: str) -> Any:
    context = multiprocessing.get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(["rankzero.learn.distributed.fork_server"])
    return context


def _pickled(value: Any) -> bytes:
    """By value where a rank could not import it: functions of a notebook, of a script, of a file loaded by its path."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        alone = "." not in name and file.endswith(".py") and not file.endswith("__init__.py")
        if alone and name != "__main__" and str(Path(file).parent) not in sys.path:
            cloudpickle.register_pickle_by_value(module)
    return bytes(cloudpickle.dumps(value))


_starting = threading.Lock()


@contextlib.contextmanager
def empty_main_module() -> Iterator[None]:
    """Keeps new processes from importing the running script again: what they need of it is in the payload."""
    with _starting:  # one thread at a time: the next would take the empty module for the script
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
    process = context.Process(target=live, args=(number, payload, folder, steps, settings, replies_in, prints_in))
    with empty_main_module():
        process.start()
    replies_in.close()
    prints_in.close()
    os.set_blocking(prints.fileno(), False)
    return Rank(number, process, replies, prints)


# ------------------------------------------------------------------------------------------------------- watching them
def _watch(world: list[Rank], steps: Sequence[int], folder: Path, seconds: float | None, interrupts: list[int]) -> bool:
    """Waits until all ranks are done; after the first failure, or too long a time, only for what others still say.

    Passes the first Ctrl-C on to the ranks: whether it has.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    interrupted = False
    while running := [rank for rank in world if rank.status == "running"]:
        if deadline is not None and time.monotonic() >= deadline:
            _ask_where(running, folder)
            break
        _take_in(running, folder, deadline)
        if interrupts and interrupted:
            interrupts.clear()
            raise KeyboardInterrupt
        if interrupts and NOT_UP not in steps:
            interrupts.clear()
            interrupted = True  # a rank that handles it may finish its step, and save
            for rank in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.process.pid or 0, signal.SIGINT)
        failed = any(rank.status in ("raised", "died") for rank in world)
        if failed and (deadline is None or deadline > time.monotonic() + GRACE_S):
            deadline = time.monotonic() + GRACE_S
    return interrupted


def _take_in(running: list[Rank], folder: Path, deadline: float | None) -> None:
    """Waits a moment for the next thing that happens to a rank and notes it."""
    left = LOOK_S if deadline is None else min(LOOK_S, max(0.0, deadline - time.monotonic()))
    ready = wait([one for rank in running for one in (rank.replies, rank.prints, rank.process.sentinel)], left)
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
                rank.kind, rank.says, rank.place, rank.consequence = rest
            return
    except (EOFError, OSError):
        pass
    rank.status = "died"
    rank.process.join(GRACE_S)
    if rank.process.exitcode is None:
        rank.says = "closed its connection to the process that started it"
        return
    _forward_prints(rank)
    code = rank.process.exitcode
    rank.says = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    rank.place, _ = place_in_dump(_dump(rank, folder))
    if "Received data size doesn't match" in rank.last:  # gloo ends the process that is sent too much
        rank.says += ", since another rank's message was larger: do all call the same collective, with the same shape?"


def _dump(rank: Rank, folder: Path) -> str:
    """What a rank has written down of where it was."""
    file = folder / f"rank-{rank.number}"
    return file.read_text(errors="replace") if file.exists() else ""


def _forward_prints(rank: Rank, *, ended: bool = False) -> None:
    """Prints what a rank has printed: some of it, if there is no end to it."""
    with contextlib.suppress(BlockingIOError, OSError):
        for _ in range(100):
            chunk = os.read(rank.prints.fileno(), 65536)
            text = rank.decoder.decode(chunk)
            rank.last = (rank.last + text)[-1000:]
            if rank.number == 0:
                _print(text)
            else:
                *lines, rank.line = (rank.line + text).split("\n")
                _print("".join(f"[rank {rank.number}] {line}\n" for line in lines))
            if not chunk:
                break
    if ended and rank.line:
        _print(f"[rank {rank.number}] {rank.line}\n")


def _print(text: str) -> None:
    if text and sys.stdout:  # there is none in a process that was started without
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()


def _ask_where(running: list[Rank], folder: Path) -> None:
    """Lets each rank that still runs write down where it is."""
    for rank in running:
        rank.status = "stuck"
        rank.says = "was"
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.process.pid or 0, WHERE_SIGNAL)
    until = time.monotonic() + GRACE_S
    for rank in running:
        while time.monotonic() < until and "File" not in _dump(rank, folder):
            time.sleep(0.01)
        place, rank.consequence = place_in_dump(_dump(rank, folder))
        rank.place = place or "busy"


def _raise(world: list[Rank], steps: list[int], seconds: float | None) -> NoReturn:
    """Raises what the failures of the ranks amount to."""
    failed = [rank for rank in world if rank.status in ("raised", "died") and not rank.consequence]
    if failed and all(rank.kind in KINDS for rank in failed):
        raise KINDS[failed[0].kind](failed[0].says)
    cause = min((rank for rank in world if rank.status != "done"), key=_blame)
    left = ", ".join(str(rank.number) for rank in world if rank.status == "done")
    if cause.says == LOST and left:  # all others that failed only say the same
        cause.says = f"waited in a collective that rank {left} did not call"
    when = f" at step {steps[cause.number]}" if steps[cause.number] >= 0 else ""
    late = all(rank.status in ("stuck", "done") for rank in world)
    text = f"rank {cause.number} of {len(world)}{when}{':' if cause.status == 'raised' else ''} {_story(cause)}"
    if late:
        text = f"no answer after {seconds:g} s: {text}"
    for rank in world:
        if rank is not cause:
            step = f", step {steps[rank.number]}" if steps[rank.number] >= 0 else ""
            text += f"\n  rank {rank.number}{step}: {'was done' if rank.status == 'done' else _story(rank)}"
    if late:
        raise WorldTimeoutError(text, "late")
    raise WorldError(text, cause.says)


def _blame(rank: Rank) -> int:
    """How far a rank is from the cause: lower is nearer. What a rank refuses may follow from what another did."""
    return {"died": 0, "raised": 1, "stuck": 3}[rank.status] + (rank.kind in KINDS) + 4 * rank.consequence


def _story(rank: Rank) -> str:
    if rank.status == "stuck":
        return f"was {rank.place}"
    says = f"{rank.kind}: {rank.says}" if rank.kind in KINDS else rank.says
    return f"{says} ({rank.place})" if rank.place else says
