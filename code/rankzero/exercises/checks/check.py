"""Exercises and their checks: a probe, which runs beside the learner's code, and a judge, which never does."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from rankzero.curriculum import Lab
from rankzero.exercises.probes.answers import Answers
from rankzero.exercises.probes.loader import load

# (what the learner's code answered, what the reference answered) -> None if right, or what is wrong, in a sentence.
Judge = Callable[[Answers, Answers], str | None]


@dataclass(frozen=True)
class Check:
    """One thing that an exercise's code must do.

    `probe` names a function of the lab's probes.py: it takes the learner's module and a seed, and returns answers. The
    same probe on the reference gives what `judge` compares them with. `requires` are checks that must pass first;
    otherwise this one is skipped, not failed.
    """

    name: str
    says: str  # what is true when it passes
    points: int
    probe: str
    judge: Judge
    requires: tuple[str, ...] = ()
    seconds: float = 5.0  # time limit of the probe, where it runs alone


@dataclass(frozen=True)
class Exercise:
    """One exercise: the functions the learner writes, and the checks that judge them."""

    name: str
    functions: tuple[str, ...]
    minutes: int
    difficulty: str
    proves: str  # what someone who has done it can do
    hints: tuple[str, ...]  # from a nudge to nearly the answer
    checks: tuple[Check, ...] = field(default=())

    @property
    def points(self) -> int:
        """The most points to be had."""
        return sum(check.points for check in self.checks)


@functools.cache
def exercises_of(lab: Lab) -> tuple[Exercise, ...]:
    """The lab's exercises with their checks, from its checks.py."""
    return tuple(load(lab.checks).EXERCISES)
