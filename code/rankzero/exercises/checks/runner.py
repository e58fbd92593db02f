"""Runner: the verdicts of an exercise's checks on a learner's file, and the diagnosis of the failed checks."""

import functools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Check, Exercise, exercises_of
from rankzero.exercises.checks.diagnosis import diagnose, same_answers
from rankzero.exercises.checks.judges import ROUNDING
from rankzero.exercises.checks.known_wrong import KnownWrong, known_wrong, wrong_file
from rankzero.exercises.checks.mistake_pairs import Pair, likely_pairs
from rankzero.exercises.checks.probe_client import BLOCKED_BY_TIMEOUT, ProbeClient, Reply
from rankzero.exercises.checks.report import Diagnosis, Report, Result
from rankzero.exercises.probes.answers import Answers
from rankzero.exercises.probes.argument_notes import note_text
from rankzero.exercises.probes.loader import with_period
from rankzero.exercises.probes.probe_process import MISSING

UNKNOWN_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
CALLED = re.compile(r"which called line \d+, in (\w+)|line \d+, in (\w+), called from line")  # see loader.error_text


def new_seed() -> int:
    """Returns an unpredictable seed."""
    return random.SystemRandom().randrange(2**31)


def check_file(
    lab: Lab,
    file: Path,
    exercises: tuple[Exercise, ...],
    *,
    seed: int,
    client: ProbeClient,
    trusted_client: ProbeClient | None = None,
    progress: Callable[[str], None] = lambda name: None,
    explain: bool = True,
) -> Report:
    """Judges `file` on the checks of `exercises`. `progress` is called with the name of each check.

    `client` runs the probes of `file`; `trusted_client`, by default the same, those of the curriculum's own files. With
    `explain` a failure is compared with known-wrong solutions, and checks that others require run even if they are of
    exercises that are not in `exercises`.
    """
    run = _Run(lab, file, seed, client, trusted_client or client, progress, explain)
    results: list[Result] = []
    diagnoses: list[Diagnosis] = []
    for exercise in exercises:
        of_exercise = list(run.results(exercise))
        if explain:
            known, together = run.explain(exercise)
            if known:  # which says where the difference comes from
                of_exercise = [replace(result, text=result.text.replace(ROUNDING, "")) for result in of_exercise]
            diagnoses += [
                Diagnosis(exercise.name, wrong.name, wrong.text, wrong.read, wrong.fails, together) for wrong in known
            ]
        results += of_exercise
    return Report(lab.number, str(file), seed, tuple(results), tuple(diagnoses), run.unusable)


class RecordedAnswers(dict[str, Any]):
    """Answers that record in `names` which of them a judge read. A missing answer is None."""

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
    """The state of one call of `check_file`."""

    lab: Lab
    file: Path
    seed: int
    client: ProbeClient  # for `file`, and for nothing else
    trusted_client: ProbeClient  # for the curriculum's own files
    progress: Callable[[str], None]
    run_required: bool  # whether required checks of other exercises run too; otherwise they count as passed
    unusable: str = ""  # the error, if the file does not load
    status: dict[str, str] = field(default_factory=dict)  # of each check so far
    blocked: dict[str, str] = field(default_factory=dict)  # by check that requires a failed check: the reason
    late: set[str] = field(default_factory=set)  # checks that ran out of time, or that require such a check
    todo: set[str] = field(default_factory=set)  # checks of functions that are not written
    needs: dict[str, str] = field(default_factory=dict)  # by check: the exercise of a missing function that it calls
    read: dict[str, set[str]] = field(default_factory=dict)  # by check: the answers that its judge read

    def ask(self, exercise: Exercise, check: Check) -> Reply:
        """Returns the reply of the learner's code to the check's probe."""
        return self.client.ask(self.lab, self.file, exercise, check, self.seed)

    def results(self, exercise: Exercise) -> Iterator[Result]:
        """Yields the verdict on each check of the exercise."""
        for check in exercise.checks:
            self.progress(check.name)
            status, text, printed = self._verdict(exercise, check)
            self.status[check.name] = status
            points = check.points if status == "pass" else 0
            todo, needs = check.name in self.todo, self.needs.get(check.name, "")
            yield Result(check.name, exercise.name, status, points, check.points, text, printed, todo, needs)

    def _verdict(self, exercise: Exercise, check: Check) -> tuple[str, str, str]:
        """Returns the status, the text, and the output that the learner's code printed."""
        if self.unusable:
            return "error", self.unusable, ""
        missing = next((name for name in check.requires if self._status(name) != "pass"), "")
        if missing:
            if missing in self.late and missing.startswith(f"{exercise.name}/"):
                reason = BLOCKED_BY_TIMEOUT
            else:
                reason = self.blocked.get(missing) or f"blocked until {self._says(missing)}"
                self.blocked[check.name] = reason
        if missing in self.late:
            self.late.add(check.name)
            return "skipped", reason, ""
        reply = self.ask(exercise, check)
        if reply.loading:
            self.unusable = reply.text
        if reply.status in ("timeout", "skipped"):
            self.late.add(check.name)
        if reply.status == "todo":
            if reply.cause == MISSING:  # nobody deletes a stub on purpose
                self.blocked[check.name] = reply.text
            else:
                self.todo.add(check.name)
            return "fail", reply.text or f"{exercise.name} is not written yet.", reply.printed
        if missing:
            return "skipped", reason, ""
        if reply.status == "error" and (reason := self._missing_function(check, reply) or self._cause(check, reply)):
            return "skipped", reason, reply.printed
        if reply.status == "error" and reply.notes:
            return reply.status, self._with_notes(reply.text, exercise, check, reply), reply.printed
        if reply.status != "answered":
            return reply.status, reply.text, reply.printed
        failure = self._judge(exercise, check, reply)
        return "fail" if failure else "pass", failure or "", reply.printed

    def _missing_function(self, check: Check, reply: Reply) -> str:
        """Returns why the check is blocked if the code failed because another exercise's function is missing, or ''."""
        unknown = UNKNOWN_NAME.search(reply.text)
        if not unknown or not self.run_required:
            return ""
        for exercise in exercises_of(self.lab):
            if unknown[1] in exercise.functions:
                of_function = self.ask(exercise, exercise.checks[0])
                if (of_function.status, of_function.cause) == ("todo", MISSING):
                    self.needs[check.name] = exercise.name
                    self.blocked[check.name] = of_function.text
                    return self.blocked[check.name]
        return ""

    def _cause(self, check: Check, reply: Reply) -> str:
        """Returns why the check is blocked if the error is in another exercise's function, which fails too; or ''."""
        called = CALLED.search(reply.text)
        if not called or not self.run_required:
            return ""
        for exercise in exercises_of(self.lab):
            if (called[1] or called[2]) in exercise.functions:
                failing = next((each.name for each in exercise.checks if self._status(each.name) != "pass"), "")
                if failing:
                    self.needs[check.name] = exercise.name
                    self.blocked[check.name] = f"blocked until {self._says(failing)}"
                    return self.blocked[check.name]
        return ""

    def _status(self, name: str) -> str:
        """Returns the status of a required check, which may be of an exercise that nobody asked to check."""
        if name not in self.status and self.run_required:
            self.status[name] = self._verdict(*self._find(name))[0]
        return self.status.get(name, "pass")

    def _says(self, name: str) -> str:
        """Returns the statement of a required check, which is true if it passes."""
        exercise, check = self._find(name)
        return f"{exercise.name} is written" if name in self.todo else f"{exercise.name} {check.says}"

    def _find(self, name: str) -> tuple[Exercise, Check]:
        checks = ((exercise, check) for exercise in exercises_of(self.lab) for check in exercise.checks)
        return next((exercise, check) for exercise, check in checks if check.name == name)

    def _judge(self, exercise: Exercise, check: Check, reply: Reply) -> str | None:
        reference = self.trusted_client.ask(self.lab, self.lab.reference, exercise, check, self.seed)
        if reference.status != "answered":
            raise RuntimeError(f"the reference of {self.lab.slug} does not answer {check.name}: {reference.text}")
        answers = RecordedAnswers(reply.answers)
        try:
            failure = check.judge(answers, reference.answers)
        except Exception:  # the answers are forged: tests run every judge on the reference's answers
            failure = "the answers do not have the form that the probe gives them."
        self.read[check.name] = answers.names
        if not failure:
            return None
        return self._with_notes(failure, exercise, check, reply)

    def _with_notes(self, text: str, exercise: Exercise, check: Check, reply: Reply) -> str:
        """Returns the text with sentences on what the learner's functions did and the reference's did not."""
        reference = self.trusted_client.ask(self.lab, self.lab.reference, exercise, check, self.seed)
        sentence, *source = text.split("\n", 1)
        notes = note_text(reply.notes - reference.notes, sentence)
        return "\n".join([with_period(sentence) + notes if notes else sentence, *source])

    def explain(self, exercise: Exercise) -> tuple[list[KnownWrong], bool]:
        """Returns the known-wrong solutions that reply as the learner's code does; see `diagnose`."""
        failed = [check for check in exercise.checks if self.status[check.name] in ("fail", "error")]
        skipped = [check for check in exercise.checks if self.status[check.name] == "skipped"]
        if self.unusable or not failed or self.ask(exercise, failed[0]).status == "todo":
            return [], False

        def same_replies(checks: Sequence[Check], candidate: KnownWrong | Pair, all_answers: bool) -> Iterator[bool]:
            file = candidate.file if isinstance(candidate, Pair) else wrong_file(self.lab, candidate)
            for check in checks:
                reply = self.trusted_client.ask(self.lab, file, exercise, check, self.seed, together=checks)
                names = None if all_answers else self.read.get(check.name)
                yield same_answers(self.ask(exercise, check), reply, names, check.tolerance)

        candidates = [wrong for wrong in known_wrong(self.lab).values() if wrong.exercise == exercise.name]
        if self.ask(exercise, failed[0]).status != "answered":  # two mistakes rarely give one error
            return diagnose(failed, skipped, candidates, same_replies)
        pairs = functools.partial(likely_pairs, self.lab, self.file, exercise.functions)
        return diagnose(failed, skipped, candidates, same_replies, pairs)
