"""Known-wrong solutions, and finding the one whose answers a learner's code gives.

A known-wrong solution is `solutions/lab-NN-name/wrong/NAME.py`. It defines only what it gets wrong; the rest is the
reference's. Its docstring explains the misconception to whoever holds it, and three constants say the rest::

    EXERCISE = "train_step"
    FAILS = ("train_step/clears",)      # exactly these checks
    READ = "handbook/training-loop.md#the-order-is-the-algorithm"
"""

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Check
from rankzero.exercises.probes.answers import Answers, equal

SAME = 1e-9  # two codes that compute the same in float64, in another order perhaps


class Replied(Protocol):
    """What a probe brought back, as far as a diagnosis is concerned."""

    @property
    def status(self) -> str: ...
    @property
    def answers(self) -> Answers: ...
    @property
    def text(self) -> str: ...
    @property
    def cause(self) -> str: ...


@dataclass(frozen=True)
class Misconception:
    """One known-wrong solution."""

    name: str
    file: Path
    exercise: str
    fails: frozenset[str]
    explanation: str
    read: str


@functools.cache
def misconceptions(lab: Lab) -> tuple[Misconception, ...]:
    """The lab's known-wrong solutions, read without running them. ValueError for one that lacks a constant."""
    return tuple(_read(file) for file in sorted((lab.solutions / "wrong").glob("*.py")))


def _read(file: Path) -> Misconception:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    }
    explanation = ast.get_docstring(tree)
    missing = [name for name in ("EXERCISE", "FAILS", "READ") if name not in constants]
    if missing or not explanation:
        raise ValueError(f"{file}: {missing[0] if missing else 'the docstring'} is missing.")
    return Misconception(
        name=file.stem,
        file=file,
        exercise=constants["EXERCISE"],
        fails=frozenset(constants["FAILS"]),
        explanation=" ".join(explanation.split()),
        read=constants["READ"],
    )


class Same(Protocol):
    """Whether the learner's code replies to a check's probe as a misconception's does.

    `whole`: in everything. Otherwise in the answers that decided about the check.
    """

    def __call__(self, check: Check, candidate: Misconception, *, whole: bool) -> bool: ...


def diagnose(
    failed: Sequence[Check], skipped: Sequence[Check], candidates: Sequence[Misconception], same: Same
) -> list[Misconception]:
    """The misconceptions that explain the failed checks. No match is no diagnosis; a guess would be worse.

    If one replies to every failed or skipped check as the learner's code does, it is that one; of several, the one that
    fails exactly what failed. Otherwise mistakes have been combined, and each failed check is explained by itself.
    """
    names = {check.name for check in failed}
    matching = [
        candidate
        for candidate in candidates
        if names <= candidate.fails and all(same(check, candidate, whole=True) for check in [*failed, *skipped])
    ]
    if matching:
        return [min(matching, key=lambda candidate: len(candidate.fails - names))]
    possible = [candidate for candidate in candidates if candidate.fails <= names | {check.name for check in skipped}]
    explains = {
        candidate.name: {
            check.name for check in failed if check.name in candidate.fails and same(check, candidate, whole=False)
        }
        for candidate in possible
    }
    found: list[Misconception] = []
    while possible:
        # The one that explains the most; of equals, the one that supposes the least.
        best = max(possible, key=lambda candidate: (len(explains[candidate.name] & names), -len(candidate.fails)))
        if not explains[best.name] & names:
            break
        found.append(best)
        names -= explains[best.name]
    order = [check.name for check in failed]
    return sorted(found, key=lambda candidate: min(map(order.index, explains[candidate.name])))


def same_answers(one: Replied, other: Replied, names: set[str] | None = None) -> bool:
    """Whether two replies say the same, in all answers or in those of these names."""
    if one.status != other.status:
        return False
    if one.status != "answered":
        if one.cause or other.cause:
            return one.cause == other.cause
        return one.text.split(": ", 1)[-1] == other.text.split(": ", 1)[-1]
    if not names and one.answers.keys() != other.answers.keys():  # told at once, however many somebody has forged
        return False
    return all(
        name in one.answers and name in other.answers and equal(one.answers[name], other.answers[name], SAME)
        for name in names or other.answers
    )
