"""Diagnosis: the known-wrong solutions that give the same answers as a learner's code."""

from collections.abc import Sequence
from typing import Protocol

from rankzero.exercises.checks.check import Check
from rankzero.exercises.checks.known_wrong import KnownWrong
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


class Same(Protocol):
    """Whether the learner's code replies to a check's probe as a known-wrong solution does.

    `whole`: in everything. Otherwise in the answers that decided about the check.
    """

    def __call__(self, check: Check, candidate: KnownWrong, *, whole: bool) -> bool: ...


def diagnose(
    failed: Sequence[Check], skipped: Sequence[Check], candidates: Sequence[KnownWrong], same: Same
) -> list[KnownWrong]:
    """The known-wrong solutions that explain the failed checks. No match is no diagnosis; a guess would be worse.

    If one replies to every failed or skipped check as the learner's code does, it is that one; of several, the one that
    fails exactly what failed. Otherwise mistakes have been combined, and each failed check is explained by itself.
    """
    names = {check.name for check in failed}
    matching = [
        candidate
        for candidate in candidates
        if names <= set(candidate.fails) and all(same(check, candidate, whole=True) for check in [*failed, *skipped])
    ]
    if matching:
        return [min(matching, key=lambda candidate: len(set(candidate.fails) - names))]
    not_passed = names | {check.name for check in skipped}
    possible = [candidate for candidate in candidates if set(candidate.fails) <= not_passed]
    explains = {
        candidate.name: {
            check.name for check in failed if check.name in candidate.fails and same(check, candidate, whole=False)
        }
        for candidate in possible
    }
    found: list[KnownWrong] = []
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
