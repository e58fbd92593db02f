"""Runs probes beside the learner's code, in a process that may hang, crash or lie without harm to who asked.

One server process imports torch once. For each request it forks a child, and the child loads the learner's file afresh,
runs the probes of the request and writes each one's answers to a pipe, as a line of JSON. Nothing that a learner's file
does to its process outlives the request, and the next one starts in milliseconds. The server itself runs no tensor
operation: a fork is safe only while torch has not started its threads.

Run as `python -u -m rankzero.exercises.worker READ_FD WRITE_FD` by `Worker` in client.py.
"""

import importlib
import json
import os
import resource
import selectors
import signal
import struct
import sys
import time
from bdb import BdbQuit
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from rankzero.exercises.answers import MAX_BYTES

MEMORY_BYTES = 4 * 2**30  # what a probe may allocate on top of what the server holds
FILE_BYTES = 256 * 2**20
PRINT_BYTES, PRINT_LINES, PRINT_COLUMNS = 16384, 12, 200  # of what a learner's code prints, this much is kept
GRACE_S = 0.5  # a child that is late says so itself, and where; one that cannot is killed this much later


def read_frame(fd: int) -> bytes | None:
    """One length-prefixed message; None at the end of the stream."""
    head = _read(fd, 4)
    return None if len(head) < 4 else _read(fd, struct.unpack("<I", head)[0])


def write_frame(fd: int, data: bytes) -> None:
    """Writes one length-prefixed message."""
    view = memoryview(struct.pack("<I", len(data)) + data)
    while view:
        view = view[os.write(fd, view) :]


def _read(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := os.read(fd, size - len(data))):
        data += chunk
    return data


def serve(requests: int, replies: int) -> None:
    """Answers requests until the stream ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks, and that ends this process too
    import torch

    from rankzero.exercises.no_compiler import keep_compiler_out

    keep_compiler_out()
    for name in ("rankzero.learn.gpt", "rankzero.exercises.ranks", "rankzero.learn.ranks"):
        importlib.import_module(name)  # once, so that no child has to
    torch.set_num_threads(1)
    with suppress(BrokenPipeError):  # whoever asked is gone
        write_frame(replies, b"ready")
        while (data := read_frame(requests)) is not None:
            reply = _supervise(json.loads(data), others=(requests, replies))
            write_frame(replies, json.dumps(reply).encode())


def _supervise(request: dict[str, Any], others: tuple[int, ...]) -> dict[str, Any]:
    """Forks a child for one request and watches it: replies of the probes up to one that hangs or dies, and prints."""
    (result, result_in), (printed, printed_in) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for fd in (result, printed, *others):
            os.close(fd)
        _child(request, result_in, printed_in)
    os.close(result_in)
    os.close(printed_in)
    with _Prints(printed) as prints:
        lines, expired = _collect(result, prints, request["seconds"] + GRACE_S)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # the child and whatever it started
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(result)
        wanted = request["wanted"]
        replies = [reply for line in lines if (reply := _decoded(line))]
        if replies and replies[0].get("loading"):
            replies = replies[:1] * len(wanted)
        elif len(replies) < len(wanted) and not (replies and replies[-1]["status"] == "timeout"):
            replies.append(_silence(expired, status, request["seconds"]))
        return {"every": replies, "printed": prints.text()}


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(line)
    except ValueError:
        return {}
    return reply if isinstance(reply, dict) and "status" in reply else {}


def _silence(expired: bool, status: int, seconds: float) -> dict[str, Any]:
    """The reply of a probe that never came back."""
    if expired:
        return {"status": "timeout", "text": f"no answer after {seconds:g} s"}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return {"status": "killed", "text": f"the process ended by signal {signal.Signals(os.WTERMSIG(status)).name}"}
    return {"status": "killed", "text": "the process ended without an answer"}


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


def _collect(result: int, prints: _Prints, seconds: float) -> tuple[list[bytes], bool]:
    """The lines of `result` until its end, or until none came for so many seconds; whether that was so."""
    collected, deadline = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(result, selectors.EVENT_READ)
        selector.register(prints.fd, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fd == prints.fd:
                    if not prints.read():
                        selector.unregister(prints.fd)
                    continue
                chunk = os.read(result, 65536)
                if not chunk:
                    return collected.split(b"\n"), False
                if b"\n" in chunk:
                    deadline = time.monotonic() + seconds
                if len(collected) < 2 * MAX_BYTES:
                    collected += chunk
    return collected.split(b"\n"), True


def _child(request: dict[str, Any], result: int, printed: int) -> NoReturn:
    """Runs the probes, writes replies, and ends without the interpreter's clean-up, which is the learner's to hook."""

    def say(reply: dict[str, Any]) -> None:
        line = memoryview(json.dumps(reply).encode() + b"\n")
        while line:
            line = line[os.write(result, line) :]

    try:
        os.setpgid(0, 0)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.breakpointhook = _no_debugger
        _limit(request["seconds"] * len(request["wanted"]))
        _answer(request, say)
    finally:
        os._exit(0)


def _no_debugger(*_: object, **__: object) -> NoReturn:
    raise BdbQuit


def _set_alarm(seconds: float, file: Path, say: Callable[[dict[str, Any]], None], loading: bool = False) -> None:
    """After so many seconds the process says which line of `file` it is at, and ends."""

    def late(_: int, frame: FrameType | None) -> None:
        while frame and frame.f_code.co_filename != str(file):
            frame = frame.f_back
        where = f"; {file.name}, line {frame.f_lineno} was running" if frame else ""
        say({"status": "timeout", "text": f"no answer after {seconds:g} s{where}", "loading": loading})
        os._exit(0)

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit(seconds: float) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        limit = pages * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2, int(seconds) + 3))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    from rankzero.exercises.loader import LoadError, load

    file, loaded_for = Path(request["file"]), None
    probes = load(Path(request["probes"]))
    for name, seed in request["wanted"]:
        if seed != loaded_for:
            _set_alarm(request["seconds"], file, say, loading=True)
            try:
                learner = load(file, over=Path(request["over"]) if request.get("over") else None)
            except LoadError as error:
                say({"status": "error", "text": str(error), "loading": True})
                return
            missing = [one for one in request["functions"] if not callable(getattr(learner, one, None))]
            loaded_for = seed
        _set_alarm(request["seconds"], file, say)
        if missing:
            say({"status": "todo", "text": f"{missing[0]} is missing from {file.name}: put its `def` line back."})
        else:
            reply = _probe(getattr(probes, name), learner, seed, file)
            say(reply)
            if reply["status"] == "timeout":
                return  # ranks that hang; those of the next probe would too


def _probe(probe: Any, learner: ModuleType, seed: int, file: Path) -> dict[str, Any]:
    import torch

    from rankzero.exercises.answers import encode
    from rankzero.exercises.loader import describe
    from rankzero.learn.errors import out_of_memory
    from rankzero.learn.world import WorldError, WorldTimeoutError

    torch.set_grad_enabled(True)  # whatever the probe before left behind
    try:
        return {"status": "answered", "answers": encode(probe(learner, seed)).decode()}
    except NotImplementedError as error:
        return {"status": "todo", "text": str(error)}
    except WorldError as error:  # ranks that failed; see exercises/ranks.py
        status = "timeout" if isinstance(error, WorldTimeoutError) else "error"
        return {"status": status, "text": str(error), "cause": error.cause}
    except BaseException as error:
        status = "oom" if out_of_memory(error) else "error"
        return {"status": status, "text": describe(error, file)}


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
