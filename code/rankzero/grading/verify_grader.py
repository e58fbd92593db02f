"""Verification of the grader on this machine: references, stubs, known mistakes and attacks get the expected points."""

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.known_wrong import KnownWrong, known_wrong, wrong_source
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.runner import new_seed
from rankzero.grading.attack_corpus import attack_failure, attacks, recorded_answers
from rankzero.grading.canaries import Canaries
from rankzero.grading.grade import Grade, Student, Submission
from rankzero.grading.grader import Grader, GradingSettings
from rankzero.grading.sandbox.sandbox_client import require_sandbox
from rankzero.grading.seed_pool import SEEDS, SeedPool, seed_text
from rankzero.grading.verify_record import Key, VerifyRecord

# The number of files -> a context with the function to call after each, with None and whether it was graded before.
ShowProgress = Callable[[int], AbstractContextManager[Callable[[None, bool], None]]]
# The seeds on which a file of each kind is graded: a mistake fails on every seed, an attack may know the first one's.
KINDS = {"references": SEEDS, "stubs": 1, "known mistakes": 1, "attacks": 2}


@dataclass(frozen=True)
class Case:
    """One file to grade, and the function that finds the fault in its grade: '' if there is none."""

    lab: Lab
    kind: str
    name: str
    source: bytes
    fault: Callable[[Grade], str]
    seconds: float = 120.0
    memory: int = 2048
    exercises: tuple[Exercise, ...] = ()  # that are graded; all of the lab's if empty

    @property
    def key(self) -> Key:
        return self.lab.number, self.kind, self.name


def verify(labs: Sequence[Lab], jobs: int, console: Console, progress: ShowProgress, resume: bool = False) -> int:
    """Grades every case of these labs, `jobs` at a time, and prints the result. Returns 0 if no grade has a fault.

    With `resume`, the files that the last run has graded are not graded again. UserError where there is no sandbox.
    """
    require_sandbox()
    record, began = VerifyRecord(labs, resume), time.monotonic()
    with LocalProbeClient() as trusted_client, Canaries() as canaries:
        cases = [case for lab in labs for case in _cases(lab, new_seed(), trusted_client, canaries)]
        settings = GradingSettings(tuple(lab.number for lab in labs), SeedPool(fixed=record.seeds))
        left = [case for case in cases if case.key not in record.faults]
        with progress(len(cases)) as advance:
            for _ in range(len(cases) - len(left)):
                advance(None, True)
            for case, fault in _grade_all(left, settings, jobs, trusted_client):
                record.add(case.key, fault)
                advance(None, False)
                if fault:
                    console.print(f"lab {case.lab.number}, {case.name}: {fault}.", soft_wrap=True, markup=False)
        touched = canaries.touched()
    failures = [case for case in cases if record.faults[case.key]]
    _show(labs, cases, failures, console)
    for place in touched:
        console.print(f"An attack reached a thing outside its sandbox: {place}.")
    failed = len(failures) + len(touched)
    verdict = "The grader works here" if not failed else f"The grader does NOT work here ({failed} failed)"
    console.print(f"{verdict}: {len(cases)} files, {seed_text(record.seeds)}, {time.monotonic() - began:.0f} s.")
    return int(bool(failed))


def _cases(lab: Lab, recorded_seed: int, trusted_client: LocalProbeClient, canaries: Canaries) -> Iterator[Case]:
    reference, all_points = lab.reference.read_bytes(), sum(exercise.points for exercise in exercises_of(lab))
    yield Case(lab, "references", "its reference", reference, partial(_points_fault, all_points))
    yield Case(lab, "stubs", "its stubs", lab.stubs.read_bytes(), partial(_points_fault, 0))
    for wrong in known_wrong(lab).values():  # the other exercises are those of the reference
        graded = tuple(exercise for exercise in exercises_of(lab) if exercise.name == wrong.exercise)
        source, fault = wrong_source(lab, wrong).encode(), partial(_mistake_fault, wrong)
        yield Case(lab, "known mistakes", wrong.name, source, fault, exercises=graded)
    for attack in attacks():
        if attack.lab == lab.number:
            answers = recorded_answers(lab, recorded_seed, trusted_client) if attack.records else None
            source = attack.source(answers, **canaries.places)
            fault = partial(attack_failure, attack)
            yield Case(lab, "attacks", attack.name, source, fault, attack.seconds, attack.memory)


def _points_fault(points: int, grade: Grade) -> str:
    return "" if grade.points == points else f"it got {grade.points} points; expected {points}"


def _mistake_fault(wrong: KnownWrong, grade: Grade) -> str:
    assert grade.report
    # Exercises that use the wrong exercise may fail too, which is no fault.
    results = [result for result in grade.report.results if result.exercise == wrong.exercise]
    failed = {result.check for result in results if result.status not in ("pass", "skipped")}
    if failed != set(wrong.fails):
        return f"it fails {', '.join(sorted(failed)) or 'nothing'}; expected {', '.join(sorted(wrong.fails))}"
    named = [diagnosis.name for diagnosis in grade.report.diagnoses if diagnosis.exercise == wrong.exercise]
    return "" if named == [wrong.name] else f"it is taken for {', '.join(named) or 'no known mistake'}"


def _grade_all(
    cases: Sequence[Case], settings: GradingSettings, jobs: int, trusted_client: LocalProbeClient
) -> Iterator[tuple[Case, str]]:
    """Yields each case and the fault in its grade. Every thread has one warm sandbox server."""
    thread = threading.local()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as graders:

        def grade(number: int, case: Case) -> str:
            if not hasattr(thread, "grader"):
                thread.grader = graders.enter_context(Grader(settings, trusted_client))
            pool = SeedPool(fixed=settings.pool.fixed[: KINDS[case.kind]])
            thread.grader.settings = replace(settings, pool=pool, time_limit=case.seconds, memory=case.memory)
            file = Path(folder) / str(number) / "exercises.py"
            file.parent.mkdir()
            file.write_bytes(case.source)
            submission = Submission(Student(case.name), case.lab.number, file)
            graded = thread.grader.grade(submission, exercises=case.exercises)
            return f"it cannot be graded ({graded.trouble})" if graded.trouble else case.fault(graded)

        with ThreadPoolExecutor(jobs) as pool:
            started = {pool.submit(grade, number, case): case for number, case in enumerate(cases)}
            try:
                for future in as_completed(started):
                    yield started[future], future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _show(labs: Sequence[Lab], cases: Sequence[Case], failures: Sequence[Case], console: Console) -> None:
    table = Table("lab", *KINDS, box=None, pad_edge=False)
    total = Counter((case.lab, case.kind) for case in cases)
    failed = Counter((case.lab, case.kind) for case in failures)
    for lab in labs:
        of_kinds = [(total[lab, kind], failed[lab, kind]) for kind in KINDS]
        table.add_row(lab.number, *(f"{number - wrong} of {number}" if number else "" for number, wrong in of_kinds))
    console.print(table)
