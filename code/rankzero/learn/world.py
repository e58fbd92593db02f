"""Worlds of ranks: runs a function in several processes at once, and ends them all when one of them fails.

`torchrun` starts ranks for a script. This starts them for a function: from a script, a notebook's cell, a check or a
test. A fork server imports torch once, so that a world of two ranks costs a twentieth of a second; it has never run a
tensor operation, so that forking it is safe. Who started the ranks watches them, and a failure of one, or its silence,
becomes one report about all of them.
"""

import contextlib
import faulthandler
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

from rankzero.learn.errors import UserError

MOST_RANKS = 64
GRACE_S = 1.0  # how long the other ranks may still speak after one has failed
WHERE_SIGNAL = signal.SIGUSR1  # makes a rank write down where it is, even inside C
KINDS = {kind.__name__: kind for kind in (UserError, NotImplementedError, KeyboardInterrupt, MemoryError)}


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
    line: bytes = field(default=b"", repr=False)  # printed, without its end yet
    last: bytes = field(default=b"", repr=False)  # printed last


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
    context = _context(start)
    folder = Path(tempfile.mkdtemp(prefix="rankzero-world-"))
    steps = context.RawArray("q", [-1] * ranks)  # of each rank, as it notes them
    settings = {"device": device, "debug": debug, "ranks": ranks, "seconds": seconds, "forked": start == "fork"}
    payload = (function, args) if start == "fork" else _pickled((function, args))
    world: list[Rank] = []
    try:
        for number in range(ranks):
            world.append(_start(context, number, payload, folder, steps, settings))
        _watch(world, folder, seconds)
        if all(rank.status == "done" for rank in world):
            return [rank.value for rank in world]
        _raise(world, list(steps), seconds)
    finally:
        for rank in world:
            rank.process.kill()
        for rank in world:
            rank.process.join()
            rank.replies.close()
            rank.prints.close()
        shutil.rmtree(folder, ignore_errors=True)


def _context(start: str) -> Any:
    context = multiprocessing.get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(["rankzero.learn.rank_server"])
    return context


def _pickled(value: Any) -> bytes:
    """By value where a rank could not import it: functions of a notebook, of a script, of a file loaded by its path."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        alone = "." not in name and file.endswith(".py") and not file.endswith("__init__.py")
        if alone and name != "__main__" and str(Path(file).parent) not in sys.path:
            cloudpickle.register_pickle_by_value(module)
    return bytes(cloudpickle.dumps(value))


@contextlib.contextmanager
def _main_left_alone() -> Iterator[None]:
    """Keeps new processes from importing the running script again: what they need of it is in the payload."""
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
    sys.stdout.flush()
    process = context.Process(target=_live, args=(number, payload, folder, steps, settings, replies_in, prints_in))
    with _main_left_alone():
        process.start()
    replies_in.close()
    prints_in.close()
    os.set_blocking(prints.fileno(), False)
    return Rank(number, process, replies, prints)


# ----------------------------------------------------------------------------------------------------- inside a rank
def _live(
    number: int,
    payload: Any,
    folder: Path,
    steps: Any,
    settings: dict[str, Any],
    replies: Connection,
    prints: Connection,
) -> NoReturn:
    """The whole life of a rank."""
    if not settings["forked"]:
        os.setpgid(0, 0)  # Ctrl-C is for whoever started the world, and comes on from there, once
        threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(prints.fileno(), 1)
    os.dup2(prints.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    with (folder / f"rank-{number}").open("w") as where:
        faulthandler.register(WHERE_SIGNAL, file=where, all_threads=False)
        try:
            value = _work(number, payload, folder, steps, settings)
            reply = cloudpickle.dumps(("done", value))
        except BaseException as error:
            reply = pickle.dumps(_failure(error))
        with contextlib.suppress(BrokenPipeError):
            replies.send_bytes(reply)
        sys.stdout.flush()
        os._exit(0)  # without the clean-up of libraries, in which a rank that is left alone may wait for others


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


def _work(number: int, payload: Any, folder: Path, steps: Any, settings: dict[str, Any]) -> Any:
    import torch
    import torch.distributed as dist

    from rankzero.learn.ranks import joined, share_steps

    torch.set_num_threads(1)
    share_steps(steps)
    store = dist.FileStore(  # type: ignore[attr-defined]
        str(folder / "store"), settings["ranks"]
    )
    function, args = payload if settings["forked"] else pickle.loads(payload)
    ranks, debug = settings["ranks"], settings["debug"]
    with joined(settings["device"], store=store, rank=number, ranks=ranks, debug=debug):
        return function(*args)


def _failure(error: BaseException) -> tuple[str, str, str, str, bool]:
    from rankzero.learn.ranks import is_consequence, place_of, summary_of

    kind = next((name for name, one in KINDS.items() if isinstance(error, one)), type(error).__name__)
    if kind in KINDS:
        return "raised", kind, str(error), "", False
    return "raised", kind, summary_of(error), place_of(error), is_consequence(str(error))


# ------------------------------------------------------------------------------------------------------- watching them
def _watch(world: list[Rank], folder: Path, seconds: float | None) -> None:
    """Waits until all ranks are done; after the first failure, or too long a time, only for what others still say."""
    deadline = None if seconds is None else time.monotonic() + seconds
    interrupted = False
    while running := [rank for rank in world if rank.status == "running"]:
        if deadline is not None and time.monotonic() >= deadline:
            _ask_where(running, folder)
            return
        try:
            _take_in(running, deadline)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True  # a rank that handles it may finish its step, and save
            for rank in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.process.pid or 0, signal.SIGINT)
        failed = any(rank.status in ("raised", "died") for rank in world)
        if failed and (deadline is None or deadline > time.monotonic() + GRACE_S):
            deadline = time.monotonic() + GRACE_S


def _take_in(running: list[Rank], deadline: float | None) -> None:
    """Waits for the next thing that happens to a rank and notes it."""
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    ready = wait([one for rank in running for one in (rank.replies, rank.prints, rank.process.sentinel)], left)
    for rank in running:
        if rank.prints in ready:
            _forward_prints(rank)
        if rank.replies in ready or rank.process.sentinel in ready:
            _forward_prints(rank)
            _note_reply(rank)


def _note_reply(rank: Rank) -> None:
    try:
        if rank.replies.poll():
            rank.status, *rest = pickle.loads(rank.replies.recv_bytes())
            if rank.status == "done":
                rank.value = rest[0]
            else:
                rank.kind, rank.says, rank.place, rank.consequence = rest
            return
    except (EOFError, OSError):
        pass
    rank.process.join()
    code = rank.process.exitcode or 0
    rank.status = "died"
    rank.says = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    if b"Received data size doesn't match" in rank.last:  # gloo ends the process that is sent too much
        rank.says += ", since another rank's message was larger: do all call the same collective, with the same shape?"


def _forward_prints(rank: Rank) -> None:
    """Prints what a rank has printed."""
    with contextlib.suppress(BlockingIOError, OSError):
        while chunk := os.read(rank.prints.fileno(), 65536):
            rank.last = (rank.last + chunk)[-1000:]
            if rank.number == 0:
                sys.stdout.write(chunk.decode(errors="replace"))
                continue
            *lines, rank.line = (rank.line + chunk).split(b"\n")
            for line in lines:
                sys.stdout.write(f"[rank {rank.number}] {line.decode(errors='replace')}\n")
    sys.stdout.flush()


def _ask_where(running: list[Rank], folder: Path) -> None:
    """Lets each rank that still runs write down where it is."""
    from rankzero.learn.ranks import place_in_dump

    for rank in running:
        rank.status = "stuck"
        rank.says = "was"
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.process.pid or 0, WHERE_SIGNAL)
    until = time.monotonic() + GRACE_S
    for rank in running:
        file = folder / f"rank-{rank.number}"
        while time.monotonic() < until and (not file.exists() or "File" not in file.read_text(errors="replace")):
            time.sleep(0.01)
        place, rank.consequence = place_in_dump(file.read_text(errors="replace") if file.exists() else "")
        rank.place = place or "busy"


def _raise(world: list[Rank], steps: list[int], seconds: float | None) -> NoReturn:
    """Raises what the failures of the ranks amount to."""
    raised = [rank for rank in world if rank.status == "raised"]
    first = [rank for rank in raised if rank.kind in KINDS]
    if first and not any(rank.status == "died" for rank in world):
        raise KINDS[first[0].kind](first[0].says)
    cause = min((rank for rank in world if rank.status != "done"), key=_blame)
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
    """How far a rank is from the cause: lower is nearer."""
    return {"died": 0, "raised": 1, "stuck": 2}[rank.status] + 3 * rank.consequence


def _story(rank: Rank) -> str:
    if rank.status == "stuck":
        return f"was {rank.place}"
    return f"{rank.says} ({rank.place})" if rank.place else rank.says
