"""Warm processes for tests: `python ...` commands become forks of a process that has imported torch.

While installed (`conftest.py`), every `subprocess.Popen([sys.executable, ...])` in the process of pytest is answered by
the warm server, as is multiprocessing's fork server. A test that must see a new Python uses `cold_starts`.
"""

import _posixsubprocess
import ctypes
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from warm_server import REAL_FORK_EXEC, request_of

TIME_LIMIT_S = 280.0
# Variables that a process reads when it starts: a command with another value gets a new Python.
READ_AT_START = re.compile("PYTHON(?!UNBUFFERED)|LD_|ATEN_|DNNL_|MKL_|MALLOC_|TORCH_CPP|VIRTUAL_ENV|HOME$")
PR_SET_CHILD_SUBREAPER = 36
_cold = 0
_starting = threading.Lock()  # a second thread would end this process's adoption of the first one's fork


def install() -> None:
    """Makes commands of Python start as forks of the warm server."""
    if sys.platform == "linux":
        _posixsubprocess.fork_exec = subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]


@contextmanager
def cold_starts() -> Iterator[None]:
    """Makes commands start a new Python in this context."""
    global _cold
    _cold += 1
    try:
        yield
    finally:
        _cold -= 1


def fork_exec(*call: Any) -> int:
    """Replaces `_posixsubprocess.fork_exec`: starts the command warm if possible, and returns the process id."""
    request_and_files = None if _cold else request_of(*call)
    if request_and_files is None or _read_at_start(request_and_files[0]["environment"]) != _read_at_start(os.environ):
        return int(REAL_FORK_EXEC(*call))
    with _starting:
        return _server().fork(*request_and_files)


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if READ_AT_START.match(name)}


class _WarmServer:
    """The process of warm_server.py, whose forks become children of this process."""

    def __init__(self) -> None:
        self._socket, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", str(Path(__file__).with_name("warm_server.py")), str(other_end.fileno())]
        with cold_starts():
            self._process = subprocess.Popen(command, pass_fds=[other_end.fileno()])
        other_end.close()
        self._received()

    def _received(self) -> bytes:
        message = self._socket.recv(100)
        assert message, "the warm server has ended"
        return message

    def fork(self, request: dict[str, Any], files: dict[int, int]) -> int:
        """Makes the server fork a process and returns its process id. `files`: descriptor there -> descriptor here."""
        request |= {"parent": os.getpid(), "files": list(files)}
        _become_subreaper(True)
        socket.send_fds(self._socket, [json.dumps(request).encode()], list(files.values()))
        child = int(self._received())
        _become_subreaper(False)
        return child


def _become_subreaper(yes: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


@functools.cache
def _server() -> _WarmServer:
    return _WarmServer()


def run_script(
    script: Path, *arguments: str, cwd: Path, until: str = "", environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs `script` as a process in `cwd` and returns its exit code and output.

    `until`: a regular expression. After the first line of standard output that it matches, the script and all
    processes of its session are killed, and the output ends with that line. TimeoutError after TIME_LIMIT_S.
    """
    process = subprocess.Popen(
        [sys.executable, "-u", str(script), *arguments],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    late = threading.Event()
    killer = threading.Timer(TIME_LIMIT_S, _kill_late, [process, late])
    killer.start()
    errors: list[str] = []
    assert process.stdout
    assert process.stderr
    drain = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)  # type: ignore[arg-type]
    drain.start()
    output = ""
    try:
        for line in process.stdout:
            output += line
            if until and re.search(until, line):
                _kill(process)
                break
        code = process.wait()
    finally:
        _kill(process)  # processes that the script left in its session
        process.wait()
        killer.cancel()
        drain.join()
        process.stdout.close()
        process.stderr.close()
    if late.is_set():
        raise TimeoutError(f"{script} ran longer than {TIME_LIMIT_S:.0f} s; it printed:\n{output}")
    return subprocess.CompletedProcess([str(script), *arguments], code, output, "".join(errors))


def _kill_late(process: "subprocess.Popen[str]", late: threading.Event) -> None:
    late.set()
    _kill(process)


def _kill(process: "subprocess.Popen[str]") -> None:
    """Kills every process of the session that the script leads."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
