"""Checks a learner's file: asks for answers, judges them, and explains what is wrong."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Check, Exercise, exercises_of
from rankzero.exercises.checks.diagnosis import diagnose, same_answers
from rankzero.exercises.checks.known_wrong import KnownWrong, known_wrong, wrong_file
from rankzero.exercises.checks.probe_client import BLOCKED_BY_TIMEOUT, Reply
from rankzero.exercises.checks.report import Diagnosis, Report, Result
from rankzero.exercises.probes.answers import Answers


class ProbeRunner(Protocol):
    """Returns a file's replies to probes: a `ProbeClient`, or a grader's choice between two."""

    def ask(self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int) -> Reply:
        """The reply to `check`'s probe."""


def new_seed() -> int:
    """A seed that no one could have known."""
    return random.SystemRandom().randrange(2**31)


def check_file(
    lab: Lab,
    file: Path,
    exercises: tuple[Exercise, ...],
    *,
    seed: int,
    worker: ProbeRunner,
    progress: Callable[[str], None] = lambda name: None,
    explain: bool = True,
) -> Report:
    """Judges `file` on the checks of `exercises`. `progress` is called with the name of each check.

    With `explain` a failure is compared with every known-wrong solution, which takes longer than the checks.
    """
    run = _Run(lab, file, seed, worker, progress)
    results: list[Result] = []
    diagnoses: list[Diagnosis] = []
    for exercise in exercises:
        mine = list(run.results(exercise))
        results += mine
        known = run.explain(exercise) if explain else []
        diagnoses += [Diagnosis(exercise.name, wrong.name, wrong.text, wrong.read) for wrong in known]
    return Report(lab.number, str(file), seed, tuple(results), tuple(diagnoses), run.unusable)


class _Read(dict[str, Any]):
    """Answers that remember which of them a judge looked at. One that is not there is None."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


@dataclass
class _Run:
    """One check of one file."""

    lab: Lab
    file: Path
    seed: int
    worker: ProbeRunner
    progress: Callable[[str], None]
    unusable: str = ""  # why the file does not load
    status: dict[str, str] = field(default_factory=dict)  # of each check so far
    waits: dict[str, str] = field(default_factory=dict)  # for what, of each check that waits for another
    late: set[str] = field(default_factory=set)  # checks that ran out of time, or wait for one that did
    read: dict[str, set[str]] = field(default_factory=dict)  # which answers decided about a check that failed

    def ask(self, exercise: Exercise, check: Check, wrong: KnownWrong | None = None) -> Reply:
        """The reply of the learner's code, or of a known-wrong solution, to the check's probe."""
        file = wrong_file(self.lab, wrong) if wrong else self.file
        return self.worker.ask(self.lab, file, exercise, check, self.seed)

    def results(self, exercise: Exercise) -> Iterator[Result]:
        """The verdict on each check of the exercise."""
        says = {check.name: f"{one.name} {check.says}" for one in exercises_of(self.lab) for check in one.checks}
        for check in exercise.checks:
            self.progress(check.name)
            status, text, printed = self._verdict(exercise, check, says)
            self.status[check.name] = status
            points = check.points if status == "pass" else 0
            yield Result(check.name, exercise.name, status, points, check.points, text, printed)

    def _verdict(self, exercise: Exercise, check: Check, says: dict[str, str]) -> tuple[str, str, str]:
        """Status, text, and what the learner's code printed."""
        if self.unusable:
            return "error", self.unusable, ""
        missing = next((name for name in check.requires if self.status.get(name, "pass") != "pass"), "")
        if missing:
            ours = missing in self.late and missing.startswith(f"{exercise.name}/")
            waits = BLOCKED_BY_TIMEOUT if ours else self.waits.get(missing, f"blocked until {says[missing]}")
            if not ours:
                self.waits[check.name] = waits
        if missing in self.late:
            self.late.add(check.name)
            return "skipped", waits, ""
        reply = self.ask(exercise, check)
        if reply.loading:
            self.unusable = reply.text
        if reply.status in ("timeout", "skipped"):
            self.late.add(check.name)
        if reply.status == "todo":
            return "fail", reply.text or f"{exercise.name} is not written yet.", reply.printed
        if missing:
            return "skipped", waits, ""
        if reply.status != "answered":
            return reply.status, reply.text, reply.printed
        said = self._judge(exercise, check, reply)
        return "fail" if said else "pass", said or "", reply.printed

    def _judge(self, exercise: Exercise, check: Check, reply: Reply) -> str | None:
        reference = self.worker.ask(self.lab, self.lab.reference, exercise, check, self.seed)
        if reference.status != "answered":
            raise RuntimeError(f"the reference of {self.lab.slug} does not answer {check.name}: {reference.text}")
        answers = _Read(reply.answers)
        try:
            said = check.judge(answers, reference.answers)
        except Exception:  # answers that no probe of ours makes; judges are tried on the reference's own
            said = "what came back has not the form of an answer."
        self.read[check.name] = answers.names
        return said

    def explain(self, exercise: Exercise) -> list[KnownWrong]:
        """The known-wrong solutions that reply as the learner's code does, on the same inputs."""
        failed = [check for check in exercise.checks if self.status[check.name] in ("fail", "error")]
        skipped = [check for check in exercise.checks if self.status[check.name] == "skipped"]
        if self.unusable or not failed or self.ask(exercise, failed[0]).status == "todo":
            return []

        def same(check: Check, candidate: KnownWrong, *, whole: bool) -> bool:
            names = None if whole else self.read.get(check.name)
            return same_answers(self.ask(exercise, check), self.ask(exercise, check, candidate), names)

        candidates = [wrong for wrong in known_wrong(self.lab).values() if wrong.exercise == exercise.name]
        return diagnose(failed, skipped, candidates, same)
