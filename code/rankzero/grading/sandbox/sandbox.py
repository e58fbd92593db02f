"""The sandbox: bubblewrap with a warm Python in it, which opens a room for each submission (sandbox_server.py)."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rankzero.curriculum import ROOT, Lab
from rankzero.errors import UserError

if TYPE_CHECKING:
    from rankzero.learn.machine.doctor import Finding

INSTALL = "sudo apt-get install bubblewrap"
NOBODY = 65534
LAB = "/lab"  # where the repository lies, inside
# The files of the library that probes and learners' files use. The judges, in exercises/checks/, stay outside.
INSIDE = (
    *("__init__.py", "atomic_write.py", "errors.py", "learn"),
    *("exercises/__init__.py", "exercises/probes", "grading/__init__.py"),
    *(f"grading/sandbox/{name}.py" for name in ("__init__", "namespaces", "sandbox_server")),
)


class SandboxError(RuntimeError):
    """The sandbox itself failed: what was being graded has no grade, and is not to blame."""


def missing() -> str:
    """Why this machine cannot grade in a sandbox, and the way out, in a sentence; empty if it can."""
    if sys.platform != "linux":
        return "the sandbox needs Linux"
    if not shutil.which("bwrap"):
        return f"bubblewrap is not installed (`{INSTALL}`)"
    try:
        with Host((), warm=False) as host, host.room(2**30):
            return ""
    except SandboxError as error:
        return f"bubblewrap does not work here ({error})"


class Host:
    """One warm process in a sandbox. Use it as a context; it starts in about the time of `import torch`.

    One that is not `warm` can only open rooms, at once.
    """

    def __init__(self, labs: Iterable[Lab], *, warm: bool = True) -> None:
        self._control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inside, contextlib.ExitStack() as files:
            passwd = files.enter_context(_holds("student:x:1000:1000::/tmp:/bin/false\n"))
            hosts = files.enter_context(_holds("127.0.0.1 localhost room\n"))
            self._process = subprocess.Popen(
                [*_command([lab.probes for lab in labs], passwd, hosts, inside.fileno()), *([] if warm else ["cold"])],
                pass_fds=(passwd, hosts, inside.fileno()),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        self._ready = False

    def __enter__(self) -> "Host":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @contextlib.contextmanager
    def room(self, memory: int) -> Iterator[socket.socket]:
        """A new room, in which all processes together may take `memory` bytes; the socket to its warden."""
        mine, theirs = socket.socketpair()
        with mine:
            with theirs:
                if not self._ready:
                    self._said()
                    self._ready = True
                with contextlib.suppress(OSError):
                    socket.send_fds(self._control, [json.dumps({"memory": memory}).encode()], [theirs.fileno()])
            opened = json.loads(self._said())
            try:
                if "trouble" in opened:
                    raise SandboxError(opened["trouble"])
                yield mine
            finally:
                with contextlib.suppress(OSError):  # then whatever is read says what has happened
                    self._control.send(b"close")
                self._said()

    def _said(self) -> bytes:
        with contextlib.suppress(OSError):
            if message := self._control.recv(65536):
                return message
        told = self._end().decode(errors="replace").strip().splitlines()
        raise SandboxError(told[-1] if told else f"it ended with exit code {self._process.returncode}")

    def _end(self) -> bytes:
        """What the process had to say, if it has ended now."""
        self._control.close()
        self._process.kill()
        assert self._process.stderr is not None
        return b"" if self._process.stderr.closed else self._process.communicate()[1]


@contextlib.contextmanager
def _holds(text: str) -> Iterator[int]:
    """A file descriptor from which this text can be read."""
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    try:
        yield reader
    finally:
        os.close(reader)


def inside(path: Path) -> str:
    """Where a file of the repository lies in the sandbox: never below /tmp, wherever the repository is."""
    return f"{LAB}/{path.relative_to(ROOT)}"


def _command(probes: list[Path], passwd: int, hosts: int, control: int) -> list[str]:
    """bubblewrap with what Python needs, read-only, and nothing else of this machine.

    Namespaces of one's own need a user who is not root, whose limits would not count. Root may lend its eyes only: a
    first bubblewrap lays out the files that root can read, and a second one runs as nobody.
    """
    in_venv = sys.prefix != sys.base_prefix
    ours = [path for part in INSIDE for path in (ROOT / "code" / "rankzero").glob(part)]
    binds = [(path, inside(path)) for path in (*ours, *probes)] + [(Path(sys.prefix), f"{LAB}/venv")] * in_venv
    lib = [Path(path) for path in ("/lib", "/lib64", "/lib32", "/bin", "/sbin") if Path(path).exists()]
    same = [path for path in lib if not path.is_symlink()] + [Path("/etc/ld.so.cache"), Path(sys.base_prefix).resolve()]
    binds += [(path, str(path)) for path in same if path.exists() and not path.is_relative_to("/usr")]
    files = ["--ro-bind", "/usr", "/usr", "--dir", "/tmp"]
    files += [word for path in lib if path.is_symlink() for word in ("--symlink", os.readlink(path), str(path))]
    for folder in sorted({folder for _, place in binds for folder in Path(place).parents[:-1]}):
        files += ["--perms", "0755", "--dir", str(folder)]  # else only root may pass
    files += [word for path, place in binds for word in ("--ro-bind", str(path), place)]
    files += ["--ro-bind-data", str(passwd), "/etc/passwd", "--ro-bind-data", str(hosts), "/etc/hosts"]
    shut = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    own = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"]
    own += ["--remount-ro", "/", "--remount-ro", "/dev"]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{LAB}/code",
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "FATAL",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    own += [word for name, value in environment.items() for word in ("--setenv", name, value)]
    executable = f"{LAB}/venv/bin/{Path(sys.executable).name}" if in_venv else sys.executable
    run = [executable, "-u", "-s", "-P", "-m", "rankzero.grading.sandbox.sandbox_server", str(control)]
    if os.getuid():
        return ["bwrap", *shut, *files, *own, *run]
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    outer = ["bwrap", "--die-with-parent", *files, "--bind", "/proc", "/proc", "--dev", "/dev"]
    return [*outer, *become, "bwrap", *shut, "--ro-bind", "/", "/", *own, *run]


def examine() -> "Finding":
    """For the doctor: whether submissions can be graded here."""
    from rankzero.learn.machine.doctor import (
        Finding,  # which imports torch; a grader leaves that to its other processes
    )

    if why := missing():
        return Finding("sandbox", "limit", f"{why}. Labs run; `rankzero grade` can only grade with --trusted.")
    return Finding("sandbox", "ok", "bubblewrap has just shut a process in, so `rankzero grade` works")


def refuse_without() -> None:
    """UserError where there is no sandbox."""
    if why := missing():
        raise UserError(f"{why}: without a sandbox only submissions that you trust can be graded, with --trusted.")
