"""Supervisor: the fork that runs a request's probes, its replies, and its limits of time and memory."""

import json
import math
import os
import secrets
import selectors
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from rankzero.exercises.probes.answers import MAX_BYTES, has_too_many_values
from rankzero.exercises.probes.loader import MAX_TEXT
from rankzero.exercises.probes.probe_process import READY, new_folder, run_probes
from rankzero.learn.distributed.work_clock import LOOK_S, SLOWEST, WorkClock, descendants

REPLY_BYTES = 4 * 2**20  # of all replies to one request together; the labs' probes send a tenth of that
PRINT_BYTES, PRINT_LINES, PRINT_COLUMNS = 16384, 12, 200  # of a learner's printed text that are kept
GRACE_S = 0.5  # after the time limit, in which a late child reports its line and ends; then it is killed
MEMORY_CHECK_S = 0.05  # from one check of the memory to the next, where `memory_excess` is given

MemoryExcess = Callable[[], str]  # a sentence if a request's processes take too much memory; otherwise empty


def run_supervised(
    request: dict[str, Any],
    close_fds: tuple[int, ...],
    memory_excess: MemoryExcess | None = None,
    namespace_init: bool = False,
    client: int | None = None,
) -> dict[str, Any]:
    """Forks a child that runs the request's probes, and supervises it. The child closes `close_fds` first.

    If the process at the other end of the socket `client` ends, the child is killed at once.

    Returns {"trouble": the reason} if the child ended before it ran a line of the learner's file. Otherwise:
    `replies`: the probes' replies, up to a probe that hangs or dies. `printed`: the text that the child printed.
    `waited`: seconds that its processes were ready to run while others had the cores, which its limits do not count.

    The child works in a new folder inside this process's working folder; the folder is removed afterwards.

    With `namespace_init`, this process is the first of a process namespace: every other process in the namespace
    belongs to the child, and is killed with it.
    """
    (result, result_in), (printed, printed_in) = os.pipe(), os.pipe()
    token = secrets.token_hex(16)  # a line without the token is not from the probe
    folder = new_folder()
    child = os.fork()
    if child == 0:
        for fd in (result, printed, *close_fds):
            os.close(fd)
        run_probes(request, token, result_in, printed_in, folder)
    os.close(result_in)
    os.close(printed_in)
    with _PrintedText(printed) as prints, _ReplyLines(result, token.encode()) as lines:
        clock = WorkClock(lambda: descendants(os.getpid()) if namespace_init else [child, *descendants(child)])
        stopped = _read_replies(lines, prints, request, child, clock, memory_excess, client)
        exit_status = _kill(child, namespace_init)
        if folder != ".":
            with suppress(RecursionError):  # a learner's code may put folders into folders
                shutil.rmtree(folder, ignore_errors=True)
        probes = request["probes"]
        replies = [reply for line in lines.complete if (reply := _parse_reply(line))][: len(probes) + 1]
        first = replies.pop(0) if replies else {"status": READY if stopped else "", "text": "their process ended"}
        if first["status"] != READY:
            return {"trouble": f"the probes could not start: {first.get('text', '')}"}
        if replies and replies[0].get("loading"):
            replies = replies[:1] * len(probes)
        elif len(replies) < len(probes) and not (replies and replies[-1]["status"] == "timeout"):
            limit = request["seconds"]
            late = "in time" if request.get("total", math.inf) < limit else f"after {limit:g} s"
            replies.append(_missing_reply(stopped, exit_status, late))
        return {"replies": replies, "printed": prints.text(), "waited": clock.waited}


def most_seconds(total: float) -> float:
    """Returns the seconds after which a request with the limit `total` has ended, however busy the machine is."""
    return SLOWEST * (total + GRACE_S)


def _kill(child: int, namespace_init: bool) -> int:
    """Kills the child and every process that it started. Returns the child's exit status."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL) if namespace_init else os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with suppress(ChildProcessError):
        while namespace_init:  # processes whose parents have ended are children of this process
            os.waitpid(-1, 0)
    return status


def _parse_reply(line: bytes) -> dict[str, Any]:
    """Returns a reply with values of the expected types, for a learner's code may have forged it; {} if malformed."""
    try:
        reply = {} if has_too_many_values(line) else json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return {}
    if not isinstance(reply, dict) or not isinstance(reply.get("status"), str):
        return {}
    limits = {"status": MAX_TEXT, "answers": MAX_BYTES, "text": MAX_TEXT, "cause": MAX_TEXT, "notes": MAX_TEXT}
    texts = {key: reply[key][:limit] for key, limit in limits.items() if isinstance(reply.get(key), str)}
    return texts | {"loading": reply.get("loading") is True and "answers" not in texts}


def _missing_reply(stopped: str, exit_status: int, late: str) -> dict[str, Any]:
    """Returns the reply for a probe that sent none; `stopped` is the result of `_read_replies`."""
    if stopped == "late":
        return {"status": "timeout", "text": f"no answer {late}"}
    if stopped:
        return {"status": "oom", "text": stopped}
    if os.WIFSIGNALED(exit_status) and (number := os.WTERMSIG(exit_status)) != signal.SIGKILL:
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return {"status": "killed", "text": f"the process ended by signal {name}"}
    return {"status": "killed", "text": "the process ended without an answer"}


class _Pipe:
    """The reading end of a pipe, closed at the end of the context."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.set_blocking(fd, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def read(self) -> bool:
        """Reads the pipe's content. Returns whether more can come."""
        try:
            chunk = os.read(self.fd, 65536)
        except BlockingIOError:  # empty: the process that wrote may have read the pipe itself
            return True
        self._add(chunk)
        return bool(chunk)

    def _add(self, chunk: bytes) -> None:
        raise NotImplementedError


class _PrintedText(_Pipe):
    """The beginning of a child's printed text, and its number of lines."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._kept, self._lines, self._last = b"", 0, b"\n"

    def _add(self, chunk: bytes) -> None:
        self._kept += chunk[: PRINT_BYTES - len(self._kept)]
        self._lines += chunk.count(b"\n")
        self._last = chunk[-1:] or self._last

    def text(self) -> str:
        """Returns the first lines and the number of further lines."""
        self.read()  # a pipe holds at most the bytes of one read
        lines = self._kept.decode(errors="replace").splitlines()[:PRINT_LINES]
        shown = [line if len(line) <= PRINT_COLUMNS else f"{line[: PRINT_COLUMNS - 1]}…" for line in lines]
        more = self._lines + (self._last != b"\n") - len(lines)
        return "\n".join([*shown, f"+{more} {'line' if more == 1 else 'lines'} more"] if more > 0 else shown)


class _ReplyLines(_Pipe):
    """The lines of a pipe that begin with the token, without the token; other lines are dropped."""

    def __init__(self, fd: int, token: bytes) -> None:
        super().__init__(fd)
        self._token = token
        self.complete: list[bytes] = []
        self.bytes = 0
        self._line = bytearray()  # the unfinished line; only its first bytes, if they differ from the token

    def _add(self, chunk: bytes) -> None:
        *ends, beginning = chunk.split(b"\n")
        for end in ends:
            self._grow(end)
            if self._line.startswith(self._token):
                self.complete.append(bytes(self._line[len(self._token) :]))
            else:
                self.bytes -= len(self._line)
            self._line.clear()
        self._grow(beginning)

    def _grow(self, part: bytes) -> None:
        before = len(self._line)
        self._line += part
        if not self._line.startswith(self._token):
            del self._line[len(self._token) :]
        self.bytes += len(self._line) - before


def _read_replies(
    lines: _ReplyLines,
    prints: _PrintedText,
    request: dict[str, Any],
    child: int,
    clock: WorkClock,
    memory_excess: MemoryExcess | None,
    client: int | None,
) -> str:
    """Reads all replies and returns ''; or stops early, returning 'late' or a sentence about memory, bytes, client.

    After the time limit of a probe, the child gets SIGALRM, and GRACE_S to report its line.
    """
    seconds, probes = request["seconds"], len(request["probes"])
    last = clock.now() + request.get("total", probes * (seconds + GRACE_S))
    deadline, replies, alarmed = min(last, clock.now() + seconds), 0, False
    with selectors.DefaultSelector() as selector:
        selector.register(lines.fd, selectors.EVENT_READ, lines)
        selector.register(prints.fd, selectors.EVENT_READ, prints)
        if client is not None:  # which sends nothing before the replies: its end becomes readable when it is closed
            selector.register(client, selectors.EVENT_READ)
        while True:
            if (remaining := deadline - clock.now()) <= 0:
                if alarmed or deadline == last:
                    return "late"
                os.kill(child, signal.SIGALRM)
                alarmed, deadline = True, min(last, deadline + GRACE_S)
                continue
            for key, _ in selector.select(min(remaining, MEMORY_CHECK_S if memory_excess else LOOK_S)):
                if key.fd == client:
                    return "nobody waits for the answers"
                more = key.data.read()
                if key.fd == prints.fd and not more:
                    selector.unregister(prints.fd)
                elif not more or len(lines.complete) > probes:  # other processes may hold the pipe open
                    return ""
            if lines.bytes > REPLY_BYTES:
                return f"its answers are more than {REPLY_BYTES // 2**20} MiB"
            if len(lines.complete) > replies:  # lines without the token extend no deadline
                replies, deadline, alarmed = len(lines.complete), min(last, clock.now() + seconds), False
            if memory_excess and (sentence := memory_excess()):
                return sentence
