"""Probe client: gets the replies of a file's code to probes, from a probe server, and remembers them."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Check, Exercise, exercises_of
from rankzero.exercises.probes.answers import HANDED, MESSAGE_BYTES, AnswerError, Answers, decode, encode
from rankzero.exercises.probes.loader import MAX_TEXT

STATUSES = ("answered", "todo", "error", "timeout", "oom", "killed")
# Variables that select a processor's instructions, with which the last bits of answers and reference answers agree.
INSTRUCTION_SETS = ("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS")
# Variables without secrets, for a server that runs as another user.
ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", *INSTRUCTION_SETS)
TOGETHER = "all exercises"  # instead of an exercise's name, in a request for the probes of several
BLOCKED_BY_TIMEOUT = "blocked by the check before, which ran out of time"


@dataclass(frozen=True)
class Reply:
    """The reply to one probe.

    `status`: answered, todo, error, timeout, oom, killed, or skipped for a probe after one that ran out of time.
    """

    status: str
    answers: Answers = field(default_factory=dict)
    text: str = ""
    printed: str = ""
    cause: str = ""  # of failed ranks: the error without its line, equal for equal mistakes
    loading: bool = False  # whether the file failed to load
    notes: frozenset[str] = frozenset()  # see argument_notes.py


class ProbeClient:
    """Gets the replies of a file's code to probes, from the process that `_exchange` reaches, and caches them.

    Several threads may share a client for files that do not change: one of them asks at a time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], Reply] = {}
        self._asking = threading.Lock()

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns what `run_supervised` in supervisor.py returns for the request."""
        raise NotImplementedError

    def ask(
        self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int, together: Sequence[Check] = ()
    ) -> Reply:
        """Returns the reply of `file` to `check`'s probe: until `forget`, the same reply for the same arguments.

        The probes of `together`, by default of all checks of the exercise, run in the same process.
        """
        key = (str(file), seed, check.probe)
        with self._asking:
            if key not in self._known:
                replies = self._run(lab, file, exercise, _probes(together or exercise.checks), seed)
                self._known |= {(str(file), seed, probe): reply for probe, reply in replies.items()}
            return self._known[key]

    def ask_ahead(self, lab: Lab, file: Path, exercise: Exercise, seeds: list[int]) -> None:
        """Runs all probes of the exercise for many seeds in one process, so that `ask` finds most replies in the cache.

        Many times faster than a process per seed, but for trusted files only: the file is loaded again for each
        seed, but its changes to the process persist, and no rank looks for changes to torch.
        """
        replies = self.ask_together(lab, file, [exercise], seeds, trusted=True)
        kept = ("answered", "todo", "error", "timeout")
        self.remember(file, {asked: reply for asked, reply in replies.items() if reply.status in kept})

    def ask_together(
        self, lab: Lab, file: Path, exercises: Sequence[Exercise], seeds: Sequence[int], *, trusted: bool = False
    ) -> dict[tuple[str, int], Reply]:
        """Returns the replies to the exercises' probes for these seeds, by probe and seed, from one process.

        The replies end before the first that is missing. They are not cached: code may behave otherwise in a process
        that has run another exercise or seed before. Cached replies are returned as they are.
        """
        checks = tuple(check for exercise in exercises for check in exercise.checks)
        functions = exercises[0].functions if len(exercises) == 1 else ()
        name = exercises[0].name if len(exercises) == 1 else TOGETHER
        together = replace(exercises[0], name=name, functions=functions, checks=checks)
        with self._asking:
            asked = [(probe, seed) for seed in seeds for probe in _probes(together.checks)]
            known = {
                key: self._known[str(file), key[1], key[0]] for key in asked if (str(file), *key[::-1]) in self._known
            }
            missing = [key for key in asked if key not in known]
            return known | (self._send(lab, file, together, missing, trusted=trusted) if missing else {})

    def remember(self, file: Path, replies: Mapping[tuple[str, int], Reply]) -> None:
        """Caches replies of `file`, by probe and seed."""
        with self._asking:
            self._known |= {(str(file), seed, probe): reply for (probe, seed), reply in replies.items()}

    def _run(self, lab: Lab, file: Path, exercise: Exercise, probes: list[str], seed: int) -> dict[str, Reply]:
        """Returns the replies to `probes`; those not known run one after another in one process.

        After a probe that kills the process, the next probes run in another. After a probe that runs out of time, the
        next probes are skipped: an endless loop would cost its time limit for each probe.
        """
        replies = {probe: self._known[key] for probe in probes if (key := (str(file), seed, probe)) in self._known}
        while missing := [(probe, seed) for probe in probes if probe not in replies]:
            if any(reply.status == "timeout" for reply in replies.values()):
                return dict.fromkeys(probes, Reply("skipped", text=BLOCKED_BY_TIMEOUT)) | replies
            received = self._send(lab, file, exercise, missing)
            replies |= {probe: reply for (probe, _), reply in received.items()}
        return replies

    def forget(self, file: Path, keep: Collection[str] = ()) -> None:
        """Drops the cached replies of `file`, except to the probes `keep`, for use when the file has changed."""
        self._known = {key: reply for key, reply in self._known.items() if key[0] != str(file) or key[2] in keep}

    def _send(
        self, lab: Lab, file: Path, exercise: Exercise, probes: list[tuple[str, int]], *, trusted: bool = False
    ) -> dict[tuple[str, int], Reply]:
        """Runs probes, each with its seed, in one process. Returns the replies before the first missing reply.

        Probes that follow another probe run in a second process, which gets the answers of the first.
        """
        after = {check.probe: check.after for check in exercise.checks if check.after}
        first_of = {(probe, seed): (after.get(probe, probe), seed) for probe, seed in probes}
        asked = list(dict.fromkeys(first_of.values()))
        first = dict(zip(asked, self._request(lab, file, exercise, asked, trusted), strict=False))
        handed = {key: first[before] for key, before in first_of.items() if key[0] in after and before in first}
        handed = {key: reply for key, reply in handed.items() if reply.status == "answered"}
        with_answers = [(*key, encode(reply.answers).decode()) for key, reply in handed.items()]
        replies = self._request(lab, file, exercise, with_answers, trusted) if handed else []
        second = dict(zip(handed, replies, strict=False))
        return {
            key: _joined(handed[key], second[key]) if key in second else first[before]
            for key, before in first_of.items()
            if before in first and (key in second or key not in handed)
        }

    def _request(
        self, lab: Lab, file: Path, exercise: Exercise, probes: Sequence[tuple[str | int, ...]], trusted: bool
    ) -> list[Reply]:
        """Returns the replies of one process to probes, each with its seed and perhaps the answers of another probe."""
        limit = max(check.seconds for check in exercise.checks)
        request = {
            "exercise": exercise.name,
            "file": str(file.resolve()),
            "functions": exercise.functions,
            "others": [name for other in exercises_of(lab) for name in other.functions],
            "probes_file": str(lab.probes),
            "probes": probes,
            "trusted": trusted,
            "seconds": limit,
        }
        raw = self._exchange(request)
        return [_reply(reply, raw["printed"]) for reply in raw["replies"]]


class ProbeServerError(UserError):
    """The probe server failed or ended; a learner's code may have caused it."""


class LocalProbeClient(ProbeClient, AbstractContextManager["LocalProbeClient"]):
    """The client of a probe server on this machine. Use it as a context; starting takes the time of `import torch`.

    With `user`, a uid, the server runs as that user without root's groups and environment; only root can do this.
    """

    def __init__(self, user: int | None = None) -> None:
        super().__init__()
        self._server, server_end = multiprocessing.Pipe()
        folder = tempfile.mkdtemp(prefix="rankzero-probes-")
        self._remove_folder = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        if user is not None:
            os.chown(folder, user, user)
        environment = {name: value for name, value in os.environ.items() if user is None or name in ENVIRONMENT}
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "rankzero.exercises.probes.probe_server", str(server_end.fileno()), folder],
            pass_fds=(server_end.fileno(),),
            env={**environment, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL"},  # c10d's errors are in replies
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            cwd=None if user is None else "/",
            process_group=0,  # a terminal's Ctrl-C is for this process alone, which then ends the server
        )
        server_end.close()
        self._ready = False

    def __exit__(self, *error: object) -> None:
        self._server.close()
        self._process.kill()  # an orderly exit of torch would take half a second
        self._process.wait()
        self._remove_folder()

    def wait(self) -> None:
        """Waits until the server is ready. ProbeServerError if the server ends before it is ready."""
        if not self._ready:
            self._read()
            self._ready = True

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        self.wait()
        with suppress(ConnectionError):  # `_read` raises
            self._server.send_bytes(json.dumps(request).encode())
        raw: dict[str, Any] = json.loads(self._read())
        if "trouble" in raw:
            raise ProbeServerError(raw["trouble"])
        return raw

    def _read(self) -> bytes:
        try:
            return self._server.recv_bytes(MESSAGE_BYTES)
        except (EOFError, ConnectionError):
            code = self._process.wait()
            raise ProbeServerError(f"the process that runs probes ended with exit code {code}.") from None


def _joined(first: Reply, second: Reply) -> Reply:
    """Returns one reply of two probes, the second of which got the answers of the first."""
    answers = {name: answer for name, answer in first.answers.items() if not name.startswith(HANDED)}
    printed = "\n".join(text for text in (first.printed, second.printed) if text)
    return replace(
        second,
        answers=second.answers | answers if second.status == "answered" else {},
        printed=printed,
        notes=first.notes | second.notes,
    )


def _probes(checks: Sequence[Check]) -> list[str]:
    return list(dict.fromkeys(check.probe for check in checks))


def _reply(raw: dict[str, Any], printed: str) -> Reply:
    """Returns the reply in `raw`, checked: a learner's code may have written it."""
    status, text, cause, notes = (str(raw.get(key, ""))[:MAX_TEXT] for key in ("status", "text", "cause", "notes"))
    answers: Answers = {}
    if status not in STATUSES:
        status, text = "error", "the probe's reply is malformed"
    elif status == "answered":
        try:
            answers = decode(str(raw.get("answers")).encode(errors="replace"))
        except AnswerError as error:
            status, text = "error", str(error)
    return Reply(status, answers, text, printed, cause, bool(raw.get("loading")), frozenset(notes.split("\n")) - {""})
