"""Warm server: forks that become `python ...` commands, with torch imported already; `warm_process.py` asks for them.

The server has imported what starters, commands and kernels import, and has run no tensor operation, so a fork of it
behaves as a new Python that skips four seconds of imports. Run as `python -P warm_server.py SOCKET_FD`.
"""

import _posixsubprocess
import atexit
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from multiprocessing import forkserver
from types import ModuleType
from typing import Any, NoReturn, TextIO

PRELOAD = (
    *("torch", "torch._dynamo.utils", "torch.distributed.fsdp", "torch.distributed.checkpoint", "torch.optim"),
    *("torch.distributed.run", "numpy", "typer", "rich.console", "rich.progress", "rich.table", "rich.live", "psutil"),
    *("pydantic", "cloudpickle", "ipykernel.kernelapp", "matplotlib.figure", "matplotlib.backends.backend_agg"),
    *("torch.utils.serialization.config", "rankzero.learn.runs.training_options"),
)
MOST_BYTES, MOST_FDS, ABOVE_ALL = 2**20, 32, 300
REAL_FORK_EXEC = _posixsubprocess.fork_exec


def serve(client: socket.socket) -> None:
    """Forks for each request, a JSON message with open files, and sends the process's number."""
    gc.disable()
    for name in PRELOAD:
        importlib.import_module(name)
    gc.enable()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    client.send(b"ready")
    while True:
        message, files, *_ = socket.recv_fds(client, MOST_BYTES, MOST_FDS)
        if not message:
            return
        request = json.loads(message)
        # A fork of a fork whose parent has ended becomes a child of the process that asked, its nearest "subreaper".
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child:
                client.send(str(child).encode())
                os._exit(0)
            while os.getppid() != request["parent"]:  # until `between` has ended
                os.sched_yield()
            client.close()
            place_files(dict(zip(request["files"], files, strict=True)))
            become(request)
        for file in files:
            os.close(file)
        os.waitpid(between, 0)
        client.send(b"forked")


def place_files(files: dict[int, int]) -> None:
    """Gives the open files the numbers that they have in the request."""
    high = {number: fcntl(file, F_DUPFD_CLOEXEC, ABOVE_ALL) for number, file in files.items()}
    for file in files.values():
        os.close(file)
    for number, file in high.items():
        os.dup2(file, number)
        os.close(file)


def become(request: dict[str, Any]) -> NoReturn:
    """Runs the command of a request in this process, as a new Python would, and ends."""
    if request["session"]:
        os.setsid()
    elif request["group"] >= 0:
        os.setpgid(0, request["group"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if request["what"] == "ipykernel_launcher":
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    if "MPLBACKEND" in os.environ:
        sys.modules["matplotlib"].rcParams["backend"] = os.environ["MPLBACKEND"]
    random.seed()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    torch = sys.modules["torch"]
    torch.set_num_threads(int(threads) if threads.isdecimal() else os.cpu_count())
    unbuffered = request["unbuffered"] or "PYTHONUNBUFFERED" in os.environ
    sys.stdin, sys.stdout, sys.stderr = open_streams(unbuffered)
    _posixsubprocess.fork_exec = fork_fork_server  # type: ignore[assignment]
    kind, what, arguments = request["kind"], request["what"], request["arguments"]
    sys.argv = [what if kind == "script" else f"-{kind}", *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(what)) if kind == "script" else "")
    sys.__dict__["orig_argv"] = [sys.executable, *sys.argv]
    end(lambda: run(kind, what))


def open_streams(unbuffered: bool) -> tuple[TextIO, TextIO, TextIO]:
    """Returns stdin, stdout and stderr with the buffers that the interpreter gives them."""
    out, err = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    out.reconfigure(line_buffering=os.isatty(1), write_through=unbuffered)
    err.reconfigure(line_buffering=True, errors="backslashreplace")
    return os.fdopen(0, encoding="utf-8", closefd=False), out, err


def fork_fork_server(args: list[Any], executables: Any, close_fds: bool, keep: tuple[int, ...], *rest: Any) -> int:
    """Replaces `_posixsubprocess.fork_exec`: a fork server forks from here, if this process has but one thread."""
    code = os.fsdecode(args[-1])
    if not code.startswith("from multiprocessing.forkserver import main") or len(os.listdir("/proc/self/task")) > 1:
        return int(REAL_FORK_EXEC(args, executables, close_fds, keep, *rest))
    child = os.fork()
    if child == 0:
        for number in map(int, os.listdir("/proc/self/fd")):
            if number not in (0, 1, 2, *keep):
                with suppress(OSError):
                    os.close(number)
        forkserver._forkserver._lock = threading.Lock()  # type: ignore[attr-defined]  # it is taken
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end(lambda: exec(code, {}))
    return child


def run(kind: str, what: str) -> None:
    """Runs a script, a module or a text of code as `__main__`."""
    if kind == "script":
        runpy.run_path(what, run_name="__main__")
    elif kind == "m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), vars(main))


def end(main: Callable[[], None]) -> NoReturn:
    """Calls `main` and ends this process as the interpreter would."""
    code: object = 0
    try:
        main()
    except SystemExit as stopped:
        code = stopped.code
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        code = KeyboardInterrupt
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = code or 120
    if code is KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
