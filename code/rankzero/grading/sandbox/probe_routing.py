"""Probe routing: probes of the submission go to its sandbox, all others to a trusted client."""

import threading
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Check, Exercise
from rankzero.exercises.checks.probe_client import LocalProbeClient, ProbeClient, Reply


class TrustedClient:
    """A client for the curriculum's own files, which several threads share."""

    def __init__(self, client: LocalProbeClient) -> None:
        self._client, self._lock = client, threading.Lock()

    def ask(self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int) -> Reply:
        """As `ProbeClient.ask`."""
        with self._lock:
            return self._client.ask(lab, file, exercise, check, seed)


class ProbeRouter:
    """Sends probes of `submission` to `untrusted`, and probes of every other file to `trusted`."""

    def __init__(self, submission: Path, untrusted: ProbeClient, trusted: TrustedClient) -> None:
        self._submission, self._untrusted, self._trusted = submission, untrusted, trusted

    def ask(self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int) -> Reply:
        """As `ProbeClient.ask`."""
        client = self._untrusted if file == self._submission else self._trusted
        return client.ask(lab, file, exercise, check, seed)
