"""Sandbox client: the grader's side, which starts the sandbox server and runs probes in a submission's sandbox."""

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.probe_client import TOGETHER, ProbeClient
from rankzero.exercises.probes.answers import MESSAGE_BYTES
from rankzero.exercises.probes.supervisor import most_seconds
from rankzero.grading.sandbox.bubblewrap import bubblewrap_command, path_inside

INSTALL = "sudo apt-get install bubblewrap"
FILE = "/tmp/exercises.py"  # path of the submission in the sandbox
# Beyond the time limit, which the supervisor enforces; a later reply means a broken supervisor. The end of a process
# with many mappings or threads takes long on a busy machine.
MARGIN_S = 60.0


class SandboxError(RuntimeError):
    """The sandbox itself failed: the submission has no grade, and is not the cause."""


class TimeUsedUpError(RuntimeError):
    """An exercise used up its time without a loop in one of its probes: a person must look, or the machine was busy."""


def why_unavailable() -> str:
    """Returns why this machine has no sandbox, with the way out, or '' if it has one."""
    if sys.platform != "linux":
        return "the sandbox needs Linux"
    if not shutil.which("bwrap"):
        return f"bubblewrap is not installed (`{INSTALL}`)"
    try:
        with SandboxServer((), warm=False) as server, server.sandbox(2**30):
            return ""
    except SandboxError as error:
        return f"bubblewrap does not work here ({error})"


def require_sandbox() -> None:
    """Raises UserError where there is no sandbox."""
    if why := why_unavailable():
        raise UserError(f"{why}: without a sandbox only submissions that you trust can be graded, with --trusted.")


class SandboxServer(AbstractContextManager["SandboxServer"]):
    """The sandbox server's process. Use it as a context; it starts in about the time of `import torch`.

    A server that is not `warm` starts at once, and can open sandboxes but run no probe in them.
    """

    def __init__(self, labs: Iterable[Lab], *, warm: bool = True) -> None:
        self._control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inside, contextlib.ExitStack() as files:
            passwd = files.enter_context(_readable("student:x:1000:1000::/tmp:/bin/false\n")).fileno()
            hosts = files.enter_context(_readable("127.0.0.1 localhost sandbox\n")).fileno()
            command = bubblewrap_command([lab.probes for lab in labs], passwd, hosts, inside.fileno())
            self._process = subprocess.Popen(
                command if warm else [*command, "cold"],
                pass_fds=(passwd, hosts, inside.fileno()),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                process_group=0,  # a terminal's Ctrl-C is for this process alone, which then ends the server
            )
        self._ready = False

    def __exit__(self, *error: object) -> None:
        self._end()

    @contextlib.contextmanager
    def sandbox(self, memory: int) -> Iterator[socket.socket]:
        """Opens a sandbox whose processes may take `memory` bytes together. Yields the socket to its supervisor.

        SandboxError if the sandbox cannot be opened.
        """
        channel, supervisor_end = socket.socketpair()
        with channel:
            with supervisor_end:
                if not self._ready:
                    self._receive()
                    self._ready = True
                with contextlib.suppress(OSError):
                    message = json.dumps({"memory": memory}).encode()
                    socket.send_fds(self._control, [message], [supervisor_end.fileno()])
            opened = json.loads(self._receive())
            try:
                if "trouble" in opened:
                    raise SandboxError(opened["trouble"])
                yield channel
            finally:
                with contextlib.suppress(OSError):  # then `_receive` raises the error
                    self._control.send(b"close")
                self._receive()

    def _receive(self) -> bytes:
        with contextlib.suppress(OSError):
            if message := self._control.recv(65536):
                return message
        errors = self._end().decode(errors="replace").strip().splitlines()
        raise SandboxError(errors[-1] if errors else f"it ended with exit code {self._process.returncode}")

    def _end(self) -> bytes:
        """Kills the process. Returns its stderr at the first call."""
        self._control.close()
        self._process.kill()
        assert self._process.stderr is not None
        return b"" if self._process.stderr.closed else self._process.communicate()[1]


def _readable(text: str) -> BinaryIO:
    """Returns an open file from which `text` can be read."""
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    return os.fdopen(reader, "rb")


class Sandbox(ProbeClient):
    """One submission. Each request runs in a new sandbox, so that nothing of it is there in the next request.

    `opened` opens a sandbox and yields the socket to its supervisor. Each exercise may take `seconds` of work in all,
    whatever the others take.
    """

    def __init__(
        self, opened: Callable[[], AbstractContextManager[socket.socket]], source: bytes, seconds: float
    ) -> None:
        super().__init__()
        self._opened, self._source, self._seconds = opened, source, seconds
        self._left: dict[str, float] = {}  # seconds, by exercise
        self._failed: set[str] = set()  # exercises with a probe that was too slow by itself, or died

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the reply. The exercise's seconds pass meanwhile, except while its processes wait for a core."""
        exercise = request.pop("exercise")
        left = self._left.get(exercise, self._seconds)
        if left <= 0:
            return {"replies": [self._late(exercise)] * len(request["probes"]), "printed": ""}
        total = min(left, len(request["probes"]) * (request["seconds"] + 1))
        paths = {"file": FILE, "probes_file": path_inside(Path(request["probes_file"]))}
        message = json.dumps({**request, **paths, "total": total, "graded": True}).encode()
        with self._opened() as channel:
            began, waited = time.monotonic(), 0.0
            try:
                reply = self._reply(channel, message, total)
                waited = reply["waited"]
            finally:
                self._left[exercise] = left - (time.monotonic() - began - waited)
        statuses = [each.get("status") for each in reply["replies"]]
        cut = statuses[-1] == "timeout" and self._left[exercise] <= 0
        alone = left == self._seconds and len(statuses) == 1  # one probe took all of the exercise's time
        slow = statuses[-1] == "timeout" and (alone or not cut)
        if slow or {"oom", "killed"} & {*statuses}:
            self._failed.add(exercise)
        if cut:
            self._late(exercise)
        return reply

    def _reply(self, channel: socket.socket, message: bytes, total: float) -> dict[str, Any]:
        """Returns the reply to a request that may take `total` seconds of work."""
        receive_timeout = struct.pack("ll", int(most_seconds(total) + MARGIN_S), 0)
        try:
            with Connection(os.dup(channel.fileno())) as connection:
                channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, receive_timeout)
                connection.send_bytes(self._source)
                connection.send_bytes(message)
                reply: dict[str, Any] = json.loads(connection.recv_bytes(MESSAGE_BYTES))
            if "trouble" in reply:
                raise SandboxError(reply["trouble"])
            if not reply["replies"] or not isinstance(reply["waited"], int | float):
                raise ValueError("an empty reply")
        except (OSError, EOFError, ValueError, TypeError, KeyError) as error:
            raise SandboxError(f"the sandbox does not answer ({error or type(error).__name__})") from None
        return reply

    def _late(self, exercise: str) -> dict[str, str]:
        """Returns the reply for a probe without time. TimeUsedUpError if no probe of the exercise was too slow."""
        if exercise == TOGETHER or exercise in self._failed:
            return {"status": "timeout", "text": f"the exercise had used its {self._seconds:g} s"}
        load = f"{os.getloadavg()[0]:.0f} processes wanted this machine's {os.cpu_count()} cores"
        raise TimeUsedUpError(
            f"{exercise} used up its {self._seconds:g} s, and none of its probes is too slow by itself ({load}): grade "
            "it again with --resume, on an idle machine or with a larger --time-limit"
        )
