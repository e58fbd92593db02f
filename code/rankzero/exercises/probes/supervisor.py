"""Supervisor: the fork that runs a request's probes, its replies, and its limits of time and memory."""

import json
import math
import os
import secrets
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rankzero.exercises.probes.answers import MAX_BYTES, has_too_many_values
from rankzero.exercises.probes.loader import MOST_TEXT
from rankzero.exercises.probes.probe_process import READY, run_probes

REPLY_BYTES = 4 * 2**20  # of the replies to one request, together; ours send a tenth of that
PRINT_BYTES, PRINT_LINES, PRINT_COLUMNS = 16384, 12, 200  # of what a learner's code prints, this much is kept
GRACE_S = 0.5  # a child that is late says so itself, and where; one that cannot is killed this much later
LOOK_S = 0.05  # how often to look at the memory, where somebody asks for that

# What went wrong with memory, in a sentence, or nothing.
Memory = Callable[[], str]


def run_supervised(
    request: dict[str, Any], others: tuple[int, ...], memory: Memory | None = None, alone: bool = False
) -> dict[str, Any]:
    """Forks a child for one request and watches it. `others` are file descriptors that are none of its business.

    `trouble`, alone: why the child came to nothing before it ran a line of the learner's. Otherwise:
    `every`: the replies of the probes up to one that hangs or dies. `printed`: what the child printed. `cpu`: seconds
    that it and whatever it waited for computed. `delay`: if it was late, seconds that its processes were ready to run
    while others had the cores. `alone`: this process is the first of a process namespace, so that every other one in it
    is the child's, and ends with it.
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
    with _PrintedText(printed) as prints, _ReplyLines(result, token.encode()) as lines:
        ended = _read_replies(lines, prints, request, memory)
        delay = _wait_for_cores(child, alone) if ended == "late" else 0.0
        cpu = _kill(child, alone)
        wanted = request["wanted"]
        replies = [reply for line in lines.whole if (reply := _parse_reply(line))][: len(wanted) + 1]
        first = replies.pop(0) if replies else {"status": READY if ended else "", "text": "their process ended"}
        if first["status"] != READY:
            return {"trouble": f"the probes could not start: {first.get('text', '')}"}
        if replies and replies[0].get("loading"):
            replies = replies[:1] * len(wanted)
        elif len(replies) < len(wanted) and not (replies and replies[-1]["status"] == "timeout"):
            replies.append(_missing_reply(ended, cpu[1], min(request["seconds"], request.get("total", math.inf))))
        return {"every": replies, "printed": prints.text(), "cpu": cpu[0], "delay": delay}


def _kill(child: int, alone: bool) -> tuple[float, int]:
    """Kills the child and every process that it started. Returns their CPU seconds and the child's exit status."""
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


def _wait_for_cores(child: int, alone: bool) -> float:
    """Returns seconds that the child and its processes waited for a core; infinity where the kernel does not count."""
    processes = [one for one in os.listdir("/proc") if one.isdecimal() and one != "1"] if alone else [str(child)]
    total, counted = 0, False
    for process in processes:
        with suppress(OSError, IndexError, ValueError):
            total += int(Path(f"/proc/{process}/schedstat").read_text().split()[1])
            counted = True
    return total / 1e9 if counted else math.inf


def _parse_reply(line: bytes) -> dict[str, Any]:
    """Returns a reply with values of the expected types, for a learner's code may have forged it; {} if malformed."""
    try:
        reply = {} if has_too_many_values(line) else json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return {}
    if not isinstance(reply, dict) or not isinstance(reply.get("status"), str):
        return {}
    limits = {"status": MOST_TEXT, "answers": MAX_BYTES, "text": MOST_TEXT, "cause": MOST_TEXT}
    texts = {key: reply[key][:limit] for key, limit in limits.items() if isinstance(reply.get(key), str)}
    return texts | {"loading": reply.get("loading") is True and "answers" not in texts}


def _missing_reply(ended: str, status: int, seconds: float) -> dict[str, Any]:
    """Returns the reply for a probe that sent none."""
    if ended == "late":
        return {"status": "timeout", "text": f"no answer after {seconds:.2g} s"}
    if ended:
        return {"status": "oom", "text": ended}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return {"status": "killed", "text": f"the process ended by signal {_signal_name(os.WTERMSIG(status))}"}
    return {"status": "killed", "text": "the process ended without an answer"}


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)


class _PrintedText:
    """The beginning of a child's printed text, and its number of lines."""

    def __init__(self, fd: int) -> None:
        self.fd, self._kept, self._lines, self._last = fd, b"", 0, b"\n"
        os.set_blocking(fd, False)

    def __enter__(self) -> "_PrintedText":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def read(self) -> bool:
        """Reads what the pipe holds. Returns whether more can come."""
        try:
            chunk = os.read(self.fd, 65536)
        except BlockingIOError:
            return True
        self._kept += chunk[: PRINT_BYTES - len(self._kept)]
        self._lines += chunk.count(b"\n")
        self._last = chunk[-1:] or self._last
        return bool(chunk)

    def text(self) -> str:
        """Returns the first lines and the number of further lines."""
        self.read()  # a pipe holds no more than one read takes
        lines = self._kept.decode(errors="replace").splitlines()[:PRINT_LINES]
        shown = [line if len(line) <= PRINT_COLUMNS else f"{line[: PRINT_COLUMNS - 1]}…" for line in lines]
        more = self._lines + (self._last != b"\n") - len(lines)
        return "\n".join([*shown, f"+{more} {'line' if more == 1 else 'lines'} more"] if more > 0 else shown)


class _ReplyLines:
    """The lines of a pipe that begin with the token, without the token; other lines are dropped."""

    def __init__(self, fd: int, token: bytes) -> None:
        self.fd, self._token = fd, token
        self.whole: list[bytes] = []
        self.bytes = 0
        self._line = bytearray()  # the last one so far; its beginning, if it is none of ours
        os.set_blocking(fd, False)

    def __enter__(self) -> "_ReplyLines":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def read(self) -> bool:
        """Reads what the pipe holds. Returns whether more can come."""
        try:
            chunk = os.read(self.fd, 65536)
        except BlockingIOError:  # whoever wrote it has taken it back
            return True
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._grow(end)
            if self._line.startswith(self._token):
                self.whole.append(bytes(self._line[len(self._token) :]))
            else:
                self.bytes -= len(self._line)
            self._line.clear()
        self._grow(rest)
        return bool(chunk)

    def _grow(self, part: bytes) -> None:
        before = len(self._line)
        self._line += part
        if not self._line.startswith(self._token):
            del self._line[len(self._token) :]
        self.bytes += len(self._line) - before


def _read_replies(lines: _ReplyLines, prints: _PrintedText, request: dict[str, Any], memory: Memory | None) -> str:
    """Reads until the end of `lines`, or until one took too long: 'late', or another reason not to wait for more."""
    each, wanted = request["seconds"] + GRACE_S, len(request["wanted"])
    last = time.monotonic() + request.get("total", wanted * each)
    deadline, replies = min(last, time.monotonic() + each), 0
    with selectors.DefaultSelector() as selector:
        selector.register(lines.fd, selectors.EVENT_READ, lines)
        selector.register(prints.fd, selectors.EVENT_READ, prints)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(min(left, LOOK_S) if memory else left):
                more = key.data.read()
                if key.fd == prints.fd and not more:
                    selector.unregister(prints.fd)
                elif not more or len(lines.whole) > wanted:  # something it started may hold the pipe open
                    return ""
            if lines.bytes > REPLY_BYTES:
                return f"its answers are more than {REPLY_BYTES // 2**20} MiB"
            if len(lines.whole) > replies:  # other lines do not buy time
                replies, deadline = len(lines.whole), min(last, time.monotonic() + each)
            if memory and (wrong := memory()):
                return wrong
    return "late"
