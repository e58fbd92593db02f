"""Watches the process that runs a request's probes: for its replies, its prints, its time, its memory and its end."""

import json
import os
import secrets
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rankzero.exercises.answers import MAX_BYTES
from rankzero.exercises.probe_process import run_probes

PRINT_BYTES, PRINT_LINES, PRINT_COLUMNS = 16384, 12, 200  # of what a learner's code prints, this much is kept
GRACE_S = 0.5  # a child that is late says so itself, and where; one that cannot is killed this much later
LOOK_S = 0.05  # how often to look at the memory, where somebody asks for that

# What went wrong with memory, in a sentence, or nothing.
Memory = Callable[[], str]


def supervise(
    request: dict[str, Any], others: tuple[int, ...], memory: Memory | None = None, alone: bool = False
) -> dict[str, Any]:
    """Forks a child for one request and watches it. `others` are file descriptors that are none of its business.

    `every`: the replies of the probes up to one that hangs or dies. `printed`: what the child printed. `cpu`: seconds
    that it and whatever it waited for computed. `alone`: this process is the first of a process namespace, so
    that every other one in it is the child's, and ends with it.
    """
    (result, result_in), (printed, printed_in) = os.pipe(), os.pipe()
    token = secrets.token_hex(16)  # a line without it is not from the probe
    child = os.fork()
    if child == 0:
        for fd in (result, printed, *others):
            os.close(fd)
        run_probes(request, token, result_in, printed_in)
    os.close(result_in)
    os.close(printed_in)
    with _Prints(printed) as prints:
        lines, ended = _collect(result, prints, request, token.encode(), memory)
        cpu = _end(child, alone)
        os.close(result)
        wanted = request["wanted"]
        replies = [reply for line in lines if (reply := _decoded(line, token))][: len(wanted)]
        if replies and replies[0].get("loading"):
            replies = replies[:1] * len(wanted)
        elif len(replies) < len(wanted) and not (replies and replies[-1]["status"] == "timeout"):
            replies.append(_silence(ended, cpu[1], request["seconds"]))
        return {"every": replies, "printed": prints.text(), "cpu": cpu[0]}


def _end(child: int, alone: bool) -> tuple[float, int]:
    """Kills the child and whatever it started; CPU seconds and the child's exit status."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL) if alone else os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    cpu = usage.ru_utime + usage.ru_stime
    with suppress(ChildProcessError):
        while alone:  # those whose own parents are gone
            _, _, usage = os.wait4(-1, 0)
            cpu += usage.ru_utime + usage.ru_stime
    return cpu, status


def _decoded(line: bytes, token: str) -> dict[str, Any]:
    """A reply of the probe's; empty for anything else that came through its pipe."""
    if not line.startswith(token.encode()):
        return {}
    try:
        reply = json.loads(line.removeprefix(token.encode()))
    except (ValueError, RecursionError, MemoryError):
        return {}
    return reply if isinstance(reply, dict) and isinstance(reply.get("status"), str) else {}


def _silence(ended: str, status: int, seconds: float) -> dict[str, Any]:
    """The reply of a probe that never came back."""
    if ended == "late":
        return {"status": "timeout", "text": f"no answer after {seconds:g} s"}
    if ended:
        return {"status": "oom", "text": ended}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return {"status": "killed", "text": f"the process ended by signal {_signal_name(os.WTERMSIG(status))}"}
    return {"status": "killed", "text": "the process ended without an answer"}


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)


class _Prints:
    """The beginning of what a child prints, and how many lines there were."""

    def __init__(self, fd: int) -> None:
        self.fd, self._kept, self._lines, self._last = fd, b"", 0, b"\n"
        os.set_blocking(fd, False)

    def __enter__(self) -> "_Prints":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def read(self) -> bool:
        """Takes what is there; whether there can be more."""
        try:
            chunk = os.read(self.fd, 65536)
        except BlockingIOError:
            return True
        self._kept += chunk[: PRINT_BYTES - len(self._kept)]
        self._lines += chunk.count(b"\n")
        self._last = chunk[-1:] or self._last
        return bool(chunk)

    def text(self) -> str:
        """The first lines, and how many more there were."""
        self.read()  # a pipe holds no more than one read takes
        lines = self._kept.decode(errors="replace").splitlines()[:PRINT_LINES]
        shown = [line if len(line) <= PRINT_COLUMNS else f"{line[: PRINT_COLUMNS - 1]}…" for line in lines]
        more = self._lines + (self._last != b"\n") - len(lines)
        return "\n".join([*shown, f"+{more} {'line' if more == 1 else 'lines'} more"] if more > 0 else shown)


def _collect(
    result: int, prints: _Prints, request: dict[str, Any], token: bytes, memory: Memory | None
) -> tuple[list[bytes], str]:
    """The lines of `result` until its end, or until one took too long; then 'late', or what is wrong with memory."""
    each, most = request["seconds"] + GRACE_S, len(request["wanted"]) * (2 * MAX_BYTES)
    collected, replies = bytearray(), 0
    last = time.monotonic() + request.get("total", len(request["wanted"]) * each)
    deadline = min(last, time.monotonic() + each)
    with selectors.DefaultSelector() as selector:
        selector.register(result, selectors.EVENT_READ)
        selector.register(prints.fd, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and len(collected) < most:
            for key, _ in selector.select(min(left, LOOK_S) if memory else left):
                if key.fd == prints.fd:
                    if not prints.read():
                        selector.unregister(prints.fd)
                    continue
                chunk = os.read(result, 65536)
                if not chunk:
                    return bytes(collected).split(b"\n"), ""
                collected += chunk
                if b"\n" in chunk and collected.count(token) > replies:  # other lines do not buy time
                    replies = collected.count(token)
                    if replies == len(request["wanted"]) and collected.endswith(b"\n"):
                        return bytes(collected).split(b"\n"), ""  # something it started may hold the pipe open
                    deadline = min(last, time.monotonic() + each)
            if memory and (wrong := memory()):
                return bytes(collected).split(b"\n"), wrong
    return bytes(collected).split(b"\n"), "late"
