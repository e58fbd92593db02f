"""Child processes of a session: their lines, their output, and an end that no process survives."""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Any, ClassVar

import psutil

from rankzero.curriculum import ROOT

TAIL = 600  # letters of an error's text that are kept
# Ranks are on this machine, whose name may not be known; pytest needs none of the plugins that may be installed.
VARIABLES = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class TimeIsUpError(Exception):
    """A child that was not done in time."""


class Child:
    """A process of the repository's code, in a session of its own, so that its own children end with it."""

    alive: ClassVar[set["Child"]] = set()

    def __init__(self, command: list[str], **variables: str) -> None:
        paths = [str(ROOT / "code"), str(ROOT / "benchmarks"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `end`)
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **VARIABLES, **variables, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self.alive.add(self)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def output(self, seconds: float, exit_codes: tuple[int, ...] = (0,)) -> str:
        """Returns all that the process prints. RuntimeError for another exit code, TimeIsUpError after `seconds`."""
        try:
            output, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise TimeIsUpError(f"not done after {seconds:.0f} s") from None
        if self._process.returncode not in exit_codes:
            raise RuntimeError(f"exit code {self._process.returncode}: {self.errors()}")
        return output

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    def send(self, line: str) -> None:
        """Writes a line to the process's input."""
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def line(self, seconds: float) -> str:
        """Returns the next line. TimeIsUpError after `seconds`, EOFError if the process has ended."""
        assert self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            deadline = time.monotonic() + seconds
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeIsUpError(f"not done after {seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise EOFError(f"the process ended: {self.errors()}")
        return line

    def errors(self) -> str:
        """Returns the last lines of standard error."""
        self._errors.seek(0)
        return " ".join(self._errors.read()[-TAIL:].split())

    def end(self) -> None:
        """Kills the process and its children; torchrun's ranks are in sessions of their own."""
        self.alive.discard(self)
        with suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    child.kill()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]


def end_all() -> None:
    """Ends every process that is still running."""
    for child in list(Child.alive):
        child.end()
