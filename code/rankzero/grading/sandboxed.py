"""Asks a submission in its room, and our own files in a process outside: as a check does, without trusting anyone."""

import json
import math
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

from rankzero.curriculum import Lab
from rankzero.exercises.check import Check, Exercise
from rankzero.exercises.client import Asker, Reply, Worker
from rankzero.exercises.frames import read_frame, write_frame
from rankzero.grading.sandbox import SandboxError

FILE = "/tmp/exercises.py"  # where the submission lies, inside
STARVED = 0.5  # of the time that a late probe had, it computed for less: perhaps the machine was busy
MARGIN_S = 10.0  # the warden in the room keeps time itself; beyond this it is broken


class Room(Asker):
    """A submission in its room."""

    def __init__(self, channel: socket.socket, source: bytes, seconds: float) -> None:
        super().__init__()
        self._channel, self._seconds, self._until = channel, seconds, time.monotonic() + seconds
        try:
            write_frame(channel.fileno(), source)
        except OSError as error:
            raise SandboxError(f"the room does not take the submission: {error}") from None

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        reply = self._once(request)
        late = any(one.get("status") == "timeout" for one in reply["every"])
        if late and float(reply.get("cpu", math.inf)) < STARVED * request["seconds"]:
            reply = self._once(request)
        return reply

    def _once(self, request: dict[str, Any]) -> dict[str, Any]:
        left = self._until - time.monotonic()
        if left <= 0:
            late = {"status": "timeout", "text": f"the submission had used its {self._seconds:g} s"}
            return {"every": [late] * len(request["wanted"]), "printed": "", "cpu": math.inf}
        total = min(left, len(request["wanted"]) * (request["seconds"] + 1))
        inside = request | {"file": FILE, "over": None, "total": total}
        try:
            patience = struct.pack("ll", int(total + MARGIN_S), 0)
            self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
            write_frame(self._channel.fileno(), json.dumps(inside).encode())
            data = read_frame(self._channel.fileno())
            reply: dict[str, Any] = json.loads(data or b"null")
            assert reply["every"]
        except (OSError, ValueError, TypeError, KeyError, AssertionError) as error:
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
