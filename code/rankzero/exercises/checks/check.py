"""Exercises and their checks: a probe, which runs beside the learner's code, and a judge, which never does."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from rankzero.curriculum import Lab
from rankzero.exercises.probes.answers import Answers
from rankzero.exercises.probes.loader import load

# (the learner's answers, the reference's answers) -> None if right, otherwise a sentence about the mistake.
Judge = Callable[[Answers, Answers], str | None]


@dataclass(frozen=True)
class Check:
    """One requirement on the code of an exercise.

    `probe` names a function of the lab's probes.py: it takes the learner's module and a seed, and returns answers.
    `judge` compares them with the answers of the same probe on the reference. `requires` are checks that must pass
    first; otherwise this check is skipped, not failed.

    `after` names a probe that runs first, in a process of its own (for grading, in a sandbox of its own). Nothing
    remains of it but its answers: `probe` takes them as a third argument, and `judge` gets them too.
    """

    name: str
    says: str  # follows the exercise's name: a statement that is true if the check passes
    points: int
    probe: str
    judge: Judge
    requires: tuple[str, ...] = ()
    seconds: float = 5.0  # time limit of the probe, where it runs alone
    after: str = ""
    tolerance: float = 1e-9  # between the numbers of codes with one mistake, which may compute in another order


@dataclass(frozen=True)
class Exercise:
    """One exercise: the functions the learner writes, and the checks that judge them."""

    name: str
    functions: tuple[str, ...]
    minutes: int
    difficulty: str
    proves: str  # follows "proves that": a statement about the learner
    hints: tuple[str, ...]  # from a nudge to nearly the answer
    checks: tuple[Check, ...] = field(default=())

    @property
    def points(self) -> int:
        """The points of all checks."""
        return sum(check.points for check in self.checks)


@functools.cache
def exercises_of(lab: Lab) -> tuple[Exercise, ...]:
    """The lab's exercises with their checks, from its checks.py."""
    return tuple(load(lab.checks).EXERCISES)
