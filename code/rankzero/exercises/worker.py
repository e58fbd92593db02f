"""Runs probes beside the learner's code, in a process that may hang, crash or lie without harm to who asked.

One server process imports torch once. For each request it forks a child, and the child loads the learner's file afresh,
runs the probes of the request and writes their answers to a pipe. Nothing that a learner's file does to its process
outlives the request, and the next one starts in milliseconds. The server itself runs no tensor operation: a fork is
safe only while torch has not started its threads.

Run as `python -m rankzero.exercises.worker READ_FD WRITE_FD` by `Worker` in runner.py.
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
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rankzero.exercises.answers import MAX_BYTES

MEMORY_BYTES = 4 * 2**30  # what a probe may allocate on top of what the server holds
FILE_BYTES = 256 * 2**20
PRINT_BYTES = 4096  # of what a learner's code prints, this much is kept


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
    import torch

    # Imported here once, so that no child has to; the first optimizer of a process would import _dynamo.
    importlib.import_module("torch._dynamo")
    importlib.import_module("rankzero.learn.gpt")
    torch.set_num_threads(1)
    with suppress(BrokenPipeError):  # whoever asked is gone
        write_frame(replies, b"ready")
        while (data := read_frame(requests)) is not None:
            reply = _supervise(json.loads(data), others=(requests, replies))
            write_frame(replies, json.dumps(reply).encode())


def _supervise(request: dict[str, Any], others: tuple[int, ...]) -> dict[str, Any]:
    """Forks a child for one request and watches it: its answers, what it prints, its time."""
    (result, result_in), (printed, printed_in) = os.pipe(), os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        for fd in (result, printed, *others):
            os.close(fd)
        _child(request, result_in, printed_in)
    os.close(result_in)
    os.close(printed_in)
    collected, expired = _collect(result, printed, started + request["seconds"])
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # the child and whatever it started
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(result)
    os.close(printed)
    reply: dict[str, Any] = {"printed": collected[printed][:PRINT_BYTES].decode(errors="replace")}
    if expired:
        return reply | {"status": "timeout", "text": f"no answer after {request['seconds']:g} s"}
    try:
        return reply | json.loads(collected[result])
    except ValueError:
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
            how = f"by signal {signal.Signals(os.WTERMSIG(status)).name}"
        else:
            how = "without an answer"
        return reply | {"status": "killed", "text": f"the process ended {how}"}


def _collect(result: int, printed: int, deadline: float) -> tuple[dict[int, bytes], bool]:
    """Reads both pipes until the result's end or the deadline; keeps a bounded amount of each."""
    collected = {result: b"", printed: b""}
    limits = {result: 2 * MAX_BYTES, printed: PRINT_BYTES}
    with selectors.DefaultSelector() as selector:
        for fd in collected:
            selector.register(fd, selectors.EVENT_READ)
        while result in [key.fd for key in selector.get_map().values()]:
            left = deadline - time.monotonic()
            if left <= 0:
                return collected, True
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fd)
                elif len(collected[key.fd]) < limits[key.fd]:
                    collected[key.fd] += chunk
    return collected, False


def _child(request: dict[str, Any], result: int, printed: int) -> NoReturn:
    """Runs the probe, writes the reply, and ends without the interpreter's clean-up, which is the learner's to hook."""
    try:
        os.setpgid(0, 0)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _limit(request["seconds"])
        reply = _answer(request)
        write_all = memoryview(json.dumps(reply).encode())
        while write_all:
            write_all = write_all[os.write(result, write_all) :]
    finally:
        os._exit(0)


def _limit(seconds: float) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        limit = pages * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2, int(seconds) + 3))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    from rankzero.exercises.loader import LoadError, load

    file = Path(request["file"])
    try:
        learner = load(file, over=Path(request["over"]) if request.get("over") else None)
    except LoadError as error:
        return {"status": "error", "text": str(error), "loading": True}
    probes = load(Path(request["probes"]))
    every = {name: _probe(getattr(probes, name), learner, request["seed"], file) for name in request["probes_wanted"]}
    return {"status": "answered", "every": every}


def _probe(probe: Any, learner: ModuleType, seed: int, file: Path) -> dict[str, Any]:
    import torch

    from rankzero.exercises.answers import encode
    from rankzero.exercises.loader import describe
    from rankzero.learn.errors import out_of_memory

    torch.set_grad_enabled(True)  # whatever the probe before left behind
    try:
        return {"status": "answered", "answers": encode(probe(learner, seed)).decode()}
    except NotImplementedError as error:
        return {"status": "todo", "text": str(error)}
    except BaseException as error:
        status = "oom" if out_of_memory(error) else "error"
        return {"status": status, "text": describe(error, file), "kind": type(error).__name__}


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
