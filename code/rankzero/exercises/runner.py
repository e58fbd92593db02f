"""Checks a learner's file: asks for answers, judges them, and explains what is wrong."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from rankzero.curriculum import Lab
from rankzero.exercises.answers import AnswerError, Answers, decode
from rankzero.exercises.check import Check, Exercise
from rankzero.exercises.loader import load
from rankzero.exercises.misconceptions import Misconception, diagnose, misconceptions
from rankzero.exercises.worker import read_frame, write_frame

GROUP_SECONDS = 5.0  # for all probes of an exercise together; they take a tenth of a second


@dataclass(frozen=True)
class Reply:
    """What came back from one probe. `status`: answered, todo, error, timeout, oom or killed."""

    status: str
    answers: Answers = field(default_factory=dict)
    text: str = ""
    printed: str = ""
    loading: bool = False  # the file did not even load


class Worker:
    """The process that runs probes. Use it as a context; it starts in about the time of `import torch`."""

    def __init__(self) -> None:
        (child_in, self._requests), (self._replies, child_out) = os.pipe(), os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rankzero.exercises.worker", str(child_in), str(child_out)],
            pass_fds=(child_in, child_out),
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        os.close(child_in)
        os.close(child_out)
        self._ready = False
        self._known: dict[tuple[str, str, int, str], Reply] = {}

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._requests)
        os.close(self._replies)
        self._process.kill()  # it holds nothing to lose, and taking torch down in order would cost half a second
        self._process.wait()

    def ask(self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int, over: Path | None = None) -> Reply:
        """The reply of the code in `file` to `check`'s probe. The same question gets the same reply until `forget`.

        All probes of the exercise run in one process, which is fast. If that hangs or dies, each gets one of its own,
        so that a function that misbehaves costs its own checks only.
        """
        key = (str(file), str(over), seed, check.probe)
        if key not in self._known:
            wanted = list(dict.fromkeys(one.probe for one in exercise.checks))
            replies = self._send(lab, file, wanted, seed, GROUP_SECONDS, over)
            if all(reply.status in ("timeout", "killed", "oom") for reply in replies.values()):
                replies = self._send(lab, file, [check.probe], seed, check.seconds, over)
            for probe, reply in replies.items():
                self._known[(str(file), str(over), seed, probe)] = reply
        return self._known[key]

    def forget(self, file: Path) -> None:
        """Forgets the replies of `file`: it has changed."""
        self._known = {key: reply for key, reply in self._known.items() if key[0] != str(file)}

    def _send(
        self, lab: Lab, file: Path, probes: list[str], seed: int, seconds: float, over: Path | None
    ) -> dict[str, Reply]:
        """Runs `probes` in one process. One reply for each; the same for all if they never came back."""
        request = {
            "file": str(file.resolve()),
            "over": str(over.resolve()) if over else None,
            "probes": str(lab.probes),
            "probes_wanted": probes,
            "seed": seed,
            "seconds": seconds,
        }
        if not self._ready:
            self._read()
            self._ready = True
        write_frame(self._requests, json.dumps(request).encode())
        raw = json.loads(self._read())
        every = raw.get("every") or dict.fromkeys(probes, raw)
        return {probe: _reply({"printed": raw["printed"]} | every[probe]) for probe in probes}

    def _read(self) -> bytes:
        data = read_frame(self._replies)
        if data is None:
            raise RuntimeError(f"the worker process ended with exit code {self._process.wait()}")
        return data


def _reply(raw: dict[str, Any]) -> Reply:
    status, text, printed = raw["status"], raw.get("text", ""), raw["printed"]
    answers: Answers = {}
    if status == "answered":
        try:
            answers = decode(raw["answers"].encode())
        except AnswerError as error:
            status, text = "error", str(error)
    return Reply(status, answers, text, printed, bool(raw.get("loading")))


@dataclass(frozen=True)
class Result:
    """The verdict on one check. `status`: pass, fail, error, timeout, oom, killed or skipped."""

    check: str
    exercise: str
    status: str
    points: int  # earned
    max_points: int
    text: str = ""  # what is wrong, in a sentence
    printed: str = ""  # the beginning of what the learner's code printed


@dataclass(frozen=True)
class Diagnosis:
    """A misconception that a learner's answers match."""

    exercise: str
    name: str
    explanation: str
    read: str


@dataclass(frozen=True)
class Report:
    """All verdicts on one file, as plain data."""

    lab: str
    file: str
    seed: int
    results: tuple[Result, ...]
    diagnoses: tuple[Diagnosis, ...]

    @property
    def points(self) -> int:
        """Earned over all checks."""
        return sum(result.points for result in self.results)

    @property
    def max_points(self) -> int:
        """To be had."""
        return sum(result.max_points for result in self.results)

    def as_json(self) -> str:
        """For a program to read."""
        return json.dumps(asdict(self) | {"points": self.points, "max_points": self.max_points}, indent=2)


def new_seed() -> int:
    """A seed that no one could have known."""
    return random.SystemRandom().randrange(2**31)


def exercises_of(lab: Lab) -> tuple[Exercise, ...]:
    """The lab's exercises with their checks, from its checks.py."""
    return tuple(load(lab.checks).EXERCISES)


def check_file(
    lab: Lab,
    file: Path,
    exercises: tuple[Exercise, ...],
    *,
    seed: int,
    worker: Worker,
    over: Path | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
    """Judges `file` on the checks of `exercises`. `over` as in `load`; `progress` hears the name of each check."""
    wrong = misconceptions(lab)
    results: list[Result] = []
    diagnoses: list[Diagnosis] = []
    for exercise in exercises:
        mine = list(_exercise(lab, file, exercise, results, seed, worker, over, progress))
        results += mine
        found = _explain(lab, file, exercise, mine, wrong, seed, worker, over)
        if found:
            diagnoses.append(Diagnosis(exercise.name, found.name, found.explanation, found.read))
    return Report(lab.number, str(file), seed, tuple(results), tuple(diagnoses))


def _exercise(
    lab: Lab,
    file: Path,
    exercise: Exercise,
    before: list[Result],
    seed: int,
    worker: Worker,
    over: Path | None,
    progress: Callable[[str], None],
) -> Iterator[Result]:
    passed = {result.check: result.status == "pass" for result in before}
    for check in exercise.checks:
        progress(check.name)
        missing = [name for name in check.requires if not passed.get(name, True)]
        reply = worker.ask(lab, file, exercise, check, seed, over)
        if missing and reply.status != "todo":
            result = _result(exercise, check, "skipped", f"waits for {missing[0]}")
        else:
            result = _judge(exercise, check, reply, lab, seed, worker)
        passed[check.name] = result.status == "pass"
        yield result


def _judge(exercise: Exercise, check: Check, reply: Reply, lab: Lab, seed: int, worker: Worker) -> Result:
    if reply.status == "todo":
        return _result(exercise, check, "fail", reply.text or f"{exercise.name} is not written yet.", reply.printed)
    if reply.status != "answered":
        return _result(exercise, check, reply.status, reply.text, reply.printed)
    reference = worker.ask(lab, lab.reference, exercise, check, seed)
    if reference.status != "answered":
        raise RuntimeError(f"the reference of {lab.slug} does not answer {check.name}: {reference.text}")
    said = check.judge(reply.answers, reference.answers)
    return _result(exercise, check, "fail" if said else "pass", said or "", reply.printed)


def _result(exercise: Exercise, check: Check, status: str, text: str, printed: str = "") -> Result:
    points = check.points if status == "pass" else 0
    return Result(check.name, exercise.name, status, points, check.points, text, printed)


def _explain(
    lab: Lab,
    file: Path,
    exercise: Exercise,
    results: list[Result],
    wrong: tuple[Misconception, ...],
    seed: int,
    worker: Worker,
    over: Path | None,
) -> Misconception | None:
    """The known misconception that gives what this code gives, on the very same inputs."""
    failed = {result.check for result in results if result.status in ("fail", "error")}
    not_passed = {result.check for result in results if result.status != "pass"}
    checks = [check for check in exercise.checks if check.name in not_passed]

    def answers(check: Check, of: Misconception | None) -> Reply:
        if of is None:
            return worker.ask(lab, file, exercise, check, seed, over)
        return worker.ask(lab, of.file, exercise, check, seed, lab.reference)

    candidates = [one for one in wrong if one.exercise == exercise.name]
    return diagnose(failed, checks, candidates, answers)
