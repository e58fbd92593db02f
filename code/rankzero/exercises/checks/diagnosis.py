"""Diagnosis: the known-wrong solutions that give the same answers as a learner's code."""

from collections.abc import Callable, Sequence

from rankzero.exercises.checks.check import Check
from rankzero.exercises.checks.known_wrong import KnownWrong
from rankzero.exercises.checks.probe_client import Reply
from rankzero.exercises.probes.answers import equal

PLACES = "places"  # an answer that holds lines of the learner's file: they say nothing about the mistake
TOLERANCE = 1e-9  # between float64 results of equal code, also when it adds in another order

# (check, known-wrong solution, `all_answers`) -> whether the learner's code replies to the check's probe as that
# solution does: in all answers, or only in the answers that the check's judge read.
SameReply = Callable[[Check, KnownWrong, bool], bool]


def diagnose(
    failed: Sequence[Check], skipped: Sequence[Check], candidates: Sequence[KnownWrong], same_reply: SameReply
) -> list[KnownWrong]:
    """Returns the known-wrong solutions that explain the failed checks; none if no reply matches.

    If a solution replies to every failed or skipped check as the learner's code does, returns it; of several, the
    solution whose `fails` come closest to the failed checks. Otherwise the code combines mistakes, and each failed
    check is explained by itself.
    """
    names = {check.name for check in failed}
    matching = [
        candidate
        for candidate in candidates
        if names <= set(candidate.fails) and all(same_reply(check, candidate, True) for check in [*failed, *skipped])
    ]
    if matching:
        return [min(matching, key=lambda candidate: len(set(candidate.fails) - names))]
    not_passed = names | {check.name for check in skipped}
    possible = [candidate for candidate in candidates if set(candidate.fails) <= not_passed]
    explains = {
        candidate.name: {
            check.name for check in failed if check.name in candidate.fails and same_reply(check, candidate, False)
        }
        for candidate in possible
    }
    explanations: list[KnownWrong] = []
    while possible:
        # The solution that explains the most checks; among equals, the solution that fails the fewest checks.
        best = max(possible, key=lambda candidate: (len(explains[candidate.name] & names), -len(candidate.fails)))
        if not explains[best.name] & names:
            break
        explanations.append(best)
        names -= explains[best.name]
    order = [check.name for check in failed]
    return sorted(explanations, key=lambda candidate: min(map(order.index, explains[candidate.name])))


def same_answers(reply: Reply, other: Reply, names: set[str] | None = None) -> bool:
    """Returns whether two replies agree, in all answers or in the answers called `names`."""
    if reply.status != other.status:
        return False
    if reply.status != "answered":
        if reply.cause or other.cause:
            return reply.cause == other.cause
        return reply.text.split(": ", 1)[-1] == other.text.split(": ", 1)[-1]
    if not names and reply.answers.keys() != other.answers.keys():  # before the loop: a forgery may have many answers
        return False
    return all(
        name in reply.answers and name in other.answers and equal(reply.answers[name], other.answers[name], TOLERANCE)
        for name in (names or other.answers.keys()) - {PLACES}
    )
