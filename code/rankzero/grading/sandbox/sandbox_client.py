"""Asks a submission in its room, and our own files in a process outside: as a check does, without trusting anyone."""

import contextlib
import json
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Check, Exercise
from rankzero.exercises.probes.answers import MESSAGE_BYTES
from rankzero.exercises.probes.probe_client import Asker, Reply, Worker
from rankzero.grading.sandbox.sandbox import SandboxError, inside

FILE = "/tmp/exercises.py"  # where the submission lies, inside
STARVED = 0.5  # of the time that a late probe had, it computed for less: perhaps the machine was busy
DELAYED = 0.2  # and for this part of it was kept waiting for a core: then it was
MARGIN_S = 10.0  # the warden in the room keeps time itself; beyond this it is broken


class _Machine:
    """Lets rooms of several threads work side by side, or one of them while no other does."""

    def __init__(self) -> None:
        self._changed, self._working, self._taken = threading.Condition(), 0, False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Beside others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """While no other is at work."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken)
            self._taken = True
            self._changed.wait_for(lambda: not self._working)
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()


_machine = _Machine()


class Room(Asker):
    """A submission in its room."""

    def __init__(self, channel: socket.socket, source: bytes, seconds: float) -> None:
        super().__init__()
        self._channel, self._seconds, self._left = channel, seconds, seconds
        self._connection = Connection(os.dup(channel.fileno()))
        try:
            self._connection.send_bytes(source)
        except OSError as error:
            raise SandboxError(f"the room does not take the submission: {error}") from None

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        with _machine.shared():
            reply = self._once(request)
        late = any(one.get("status") == "timeout" for one in reply["every"])
        cpu, delay = float(reply.get("cpu", math.inf)), float(reply.get("delay", math.inf))
        if late and cpu < STARVED * request["seconds"] and delay > DELAYED * request["seconds"]:
            with _machine.alone():
                reply = self._once(request)
        return reply

    def _once(self, request: dict[str, Any]) -> dict[str, Any]:
        began = time.monotonic()
        try:
            return self._sent(request, self._left)
        finally:
            self._left -= time.monotonic() - began  # neither judging nor waiting for others is the submission's

    def _sent(self, request: dict[str, Any], left: float) -> dict[str, Any]:
        if left <= 0:
            late = {"status": "timeout", "text": f"the submission had used its {self._seconds:g} s"}
            return {"every": [late] * len(request["wanted"]), "printed": "", "cpu": math.inf}
        total = min(left, len(request["wanted"]) * (request["seconds"] + 1))
        places = {"file": FILE, "over": None, "probes": inside(Path(request["probes"]))}
        try:
            patience = struct.pack("ll", int(total + MARGIN_S), 0)
            self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
            self._connection.send_bytes(json.dumps({**request, **places, "total": total}).encode())
            reply: dict[str, Any] = json.loads(self._connection.recv_bytes(MESSAGE_BYTES))
            if "trouble" in reply:
                raise SandboxError(reply["trouble"])
            assert reply["every"]
        except (OSError, EOFError, ValueError, TypeError, KeyError, AssertionError) as error:
            raise SandboxError(f"the room does not answer ({error or type(error).__name__})") from None
        return reply


class Shared:
    """A worker that several threads may ask, about our own files."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._one_at_a_time = worker, threading.Lock()

    def ask(self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int, over: Path | None = None) -> Reply:
        """As `Worker.ask`."""
        with self._one_at_a_time:
            return self._worker.ask(lab, file, exercise, check, seed, over)

    def forget(self, file: Path) -> None:
        """As `Worker.forget`."""
        with self._one_at_a_time:
            self._worker.forget(file)


class Apart:
    """Asks `submission` in its own place, and every other file, which is ours, in another."""

    def __init__(self, submission: Path, theirs: Asker, ours: Shared) -> None:
        self._submission, self._theirs, self._ours = submission, theirs, ours

    def ask(self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int, over: Path | None = None) -> Reply:
        """As `Worker.ask`."""
        asked = self._theirs if file == self._submission else self._ours
        return asked.ask(lab, file, exercise, check, seed, over)
