"""Known-wrong solutions, and finding the one whose answers a learner's code gives.

A known-wrong solution is `solutions/lab-NN-name/wrong/NAME.py`. It defines only what it gets wrong; the rest is the
reference's. Its docstring explains the misconception to whoever holds it, and three constants say the rest::

    EXERCISE = "train_step"
    FAILS = ("train_step/clears",)      # exactly these checks
    READ = "handbook/training-loop.md#the-order-is-the-algorithm"
"""

import ast
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rankzero.curriculum import Lab
from rankzero.exercises.answers import Answers, equal
from rankzero.exercises.check import Check

SAME = 1e-9  # two codes that compute the same in float64, in another order perhaps


class Replied(Protocol):
    """What a probe brought back, as far as a diagnosis is concerned."""

    @property
    def status(self) -> str: ...
    @property
    def answers(self) -> Answers: ...
    @property
    def text(self) -> str: ...


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


def diagnose(
    failed: set[str],
    checks: Sequence[Check],
    candidates: Sequence[Misconception],
    reply: Callable[[Check, Misconception | None], Replied],
) -> Misconception | None:
    """The candidate that replies to each of `checks`, failed or skipped, as the learner's code does.

    `reply(check, None)` is the learner's. Of several that match, the one that fails exactly `failed` wins. No match is
    no diagnosis; a guess would be worse.
    """
    matching = [
        candidate
        for candidate in candidates
        if failed and failed <= candidate.fails and all(_same(reply(c, None), reply(c, candidate)) for c in checks)
    ]
    return min(matching, key=lambda candidate: len(candidate.fails - failed), default=None)


def _same(one: Replied, other: Replied) -> bool:
    if one.status != other.status:
        return False
    if one.status != "answered":
        return one.text.split(": ", 1)[-1] == other.text.split(": ", 1)[-1]
    return one.answers.keys() == other.answers.keys() and all(
        equal(value, other.answers[name], SAME) for name, value in one.answers.items()
    )
