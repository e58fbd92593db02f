"""Warm server: forks that become `python ...` commands with torch already imported, on request of `warm_process.py`.

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
import subprocess
import sys
import threading
from collections.abc import Callable
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
PROBE_SERVER = "rankzero.exercises.probes.probe_server"
MOST_BYTES, MOST_FDS, ABOVE_ALL = 2**20, 32, 300
# Flags that leave a fork as it is. Multiprocessing gives a fork server the warm server's own: -P, and perhaps -B.
SAME_FLAGS = ("-u", "-s", "-B", "-P")
REAL_FORK_EXEC = _posixsubprocess.fork_exec


def serve(client: socket.socket) -> None:
    """Forks for each request, a JSON message with open files; the new process sends its process id."""
    signal.pthread_sigmask(
        signal.SIG_SETMASK, []
    )  # multiprocessing blocks SIGINT and SIGTERM while it starts a process
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
        # When its parent ends, a process becomes a child of its nearest "subreaper": the process that sent the request.
        intermediate = os.fork()
        if intermediate == 0:
            own_id = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == own_id:  # until the intermediate process has ended
                os.sched_yield()
            if os.getppid() != request["parent"]:  # which has ended too
                os._exit(1)
            if request["session"]:
                os.setsid()
            elif request["group"] >= 0:
                os.setpgid(0, request["group"])
            client.send(str(os.getpid()).encode())
            client.close()
            high = [fcntl(file, F_DUPFD_CLOEXEC, ABOVE_ALL) for file in files]
            os.closerange(3, ABOVE_ALL)
            place_files(dict(zip(request["files"], high, strict=True)))
            become(request)
        for file in files:
            os.close(file)
        os.waitpid(intermediate, 0)


def place_files(files: dict[int, int]) -> None:
    """Gives each open file the descriptor that it has in the request."""
    for number, file in files.items():
        os.dup2(file, number)
        os.close(file)


def become(request: dict[str, Any]) -> NoReturn:
    """Runs the command of a request in this process, as a new Python would, and ends the process."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if request["program"] == "ipykernel_launcher":
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    if "MPLBACKEND" in os.environ:
        sys.modules["matplotlib"].rcParams["backend"] = os.environ["MPLBACKEND"]
    random.seed()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    torch = sys.modules["torch"]
    torch.set_num_threads(int(threads) if threads.isdecimal() else os.cpu_count())
    unbuffered = request["unbuffered"] or "PYTHONUNBUFFERED" in os.environ
    sys.stdin, sys.stdout, sys.stderr = open_streams(unbuffered)
    _posixsubprocess.fork_exec = subprocess._fork_exec = fork_server_from_here  # type: ignore
    forkserver._forkserver._lock = threading.Lock()  # type: ignore[attr-defined]  # held by a process that forks itself
    kind, program, arguments = request["kind"], request["program"], request["arguments"]
    sys.argv = [program if kind == "script" else f"-{kind}", *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)) if kind == "script" else "")
    sys.__dict__["orig_argv"] = [sys.executable, *sys.argv]
    end(lambda: run(kind, program))


def open_streams(unbuffered: bool) -> tuple[TextIO, TextIO, TextIO]:
    """Returns stdin, stdout and stderr with the buffers that the interpreter gives them."""
    out, err = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    out.reconfigure(line_buffering=os.isatty(1), write_through=unbuffered)
    err.reconfigure(line_buffering=True, errors="backslashreplace")
    return os.fdopen(0, encoding="utf-8", closefd=False), out, err


def request_of(
    args: Any, executables: Any, close_fds: bool, keep: tuple[int, ...], cwd: Any, environment: Any,
    p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
    errpipe_read: int, errpipe_write: int, restore_signals: bool, session: bool, group: int | None,
    gid: Any, groups: Any, uid: Any, *rest: Any,
) -> tuple[dict[str, Any], dict[int, int]] | None:  # fmt: skip
    """Returns the request for a call of `_posixsubprocess.fork_exec`, and its open files by their descriptors.

    None for a program that is not this Python, and for a process of another user.
    """
    command = python_command([os.fsdecode(arg) for arg in args])
    if command is None or (gid, uid) != (None, None):
        return None
    files = {number: number if file == -1 else file for number, file in ((0, p2cread), (1, c2pwrite), (2, errwrite))}
    files |= {number: number for number in keep if number != errpipe_write}
    variables = dict(os.environ)
    if environment is not None:
        variables = dict(os.fsdecode(pair).split("=", 1) for pair in environment)
    command |= {"cwd": os.fsdecode(cwd or os.getcwd()), "environment": variables}
    return command | {"session": bool(session), "group": -1 if group is None else group}, files


def python_command(words: list[str]) -> dict[str, Any] | None:
    """Returns the parts of a command of this Python; None for any other command."""
    if words[0] != sys.executable:
        return None
    unbuffered = False
    for place, word in enumerate(words[1:], start=1):
        if word in ("-m", "-c"):
            program, arguments = words[place + 1], words[place + 2 :]
            return {"unbuffered": unbuffered, "kind": word[1:], "program": program, "arguments": arguments}
        if not word.startswith("-"):
            return {"unbuffered": unbuffered, "kind": "script", "program": word, "arguments": words[place + 1 :]}
        if word not in SAME_FLAGS and not word.startswith("-X"):
            return None
        unbuffered = unbuffered or word == "-u"
    return None


def fork_server_from_here(*call: Any) -> int:
    """Replaces `_posixsubprocess.fork_exec` in a warm process: servers are forks of it while it has only one thread."""
    request_and_files = request_of(*call)
    program = request_and_files[0]["program"] if request_and_files else ""
    is_server = program == PROBE_SERVER or program.startswith("from multiprocessing.forkserver import main")
    if not request_and_files or not is_server or len(os.listdir("/proc/self/task")) > 1:
        return int(REAL_FORK_EXEC(*call))
    child = os.fork()
    if child == 0:
        request, files = request_and_files
        high = {number: fcntl(file, F_DUPFD_CLOEXEC, ABOVE_ALL) for number, file in files.items()}
        os.closerange(3, ABOVE_ALL)
        place_files(high)
        become(request)
    return child


def run(kind: str, program: str) -> None:
    """Runs a script, a module or a text of Python as `__main__`."""
    if kind == "script":
        runpy.run_path(program, run_name="__main__")
    elif kind == "m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), vars(main))


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
