"""Diagnosis: the known-wrong solutions that give the same answers as a learner's code."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rankzero.exercises.checks.check import Check
from rankzero.exercises.checks.known_wrong import KnownWrong
from rankzero.exercises.checks.mistake_pairs import Pair
from rankzero.exercises.checks.probe_client import Reply
from rankzero.exercises.probes.answers import equal

PLACES = "places"  # an answer that holds lines of the learner's file: they say nothing about the mistake
# Words of an error that differ between runs, or between codes with one mistake: paths, addresses, lines, which of the
# ranks met the mistake first, and what None was asked for.
INCIDENTAL = re.compile(
    r"""(?<!\w)/[^\s'"]+|\b\d{12,}\b|\b(?:line|rank|length) \d+|(?<='NoneType' object has no attribute )'\w+'"""
)

# (checks, known-wrong solution or pair, `all_answers`) -> for each check, whether the learner's code replies to its
# probe as that solution does: in all answers, or only in the answers that the check's judge read.
SameReplies = Callable[[Sequence[Check], KnownWrong | Pair, bool], Iterator[bool]]


def diagnose(
    failed: Sequence[Check],
    skipped: Sequence[Check],
    candidates: Sequence[KnownWrong],
    same_replies: SameReplies,
    pairs: Callable[[Sequence[KnownWrong], Sequence[KnownWrong]], Iterable[Pair]] = lambda *_: (),
) -> tuple[list[KnownWrong], bool]:
    """Returns the known-wrong solutions that explain the failed checks, and whether these are a pair.

    A solution that fails a check which the learner's code passes explains nothing. If a solution replies to every
    failed or skipped check as the learner's code does, returns it; of several, the solution whose `fails` come closest
    to the failed checks. Otherwise the code combines mistakes. Each failed check is then explained by itself, if it can
    be, and a pair of `pairs` is returned that replies as the learner's code does to the failed checks, if one of these
    is left unexplained, or otherwise to more of the skipped checks than the one solution found. In a pair, one mistake
    may hide that the other fails a check. Probes are expensive: a solution that differs on one failed check is asked no
    other.
    """
    names = {check.name for check in failed}
    not_passed = names | {check.name for check in skipped}
    possible = [candidate for candidate in candidates if set(candidate.fails) <= not_passed]

    def alike(candidate: KnownWrong | Pair) -> bool:
        return all(all(same_replies(checks, candidate, True)) for checks in (failed[:1], [*failed[1:], *skipped]))

    complete = [candidate for candidate in possible if names <= set(candidate.fails)]
    for candidate in sorted(complete, key=lambda candidate: len(candidate.fails)):
        if alike(candidate):
            return [candidate], False
    explanations: dict[str, KnownWrong] = {}
    while (found := _explains_most(names, failed, possible, same_replies)) and found[1]:
        explanations |= dict.fromkeys(found[1], found[0])
        names -= found[1]
    alone = list(dict.fromkeys(explanations[check.name] for check in failed if check.name in explanations))

    def agreeing(candidate: KnownWrong | Pair) -> set[str]:
        same = same_replies(skipped, candidate, True)
        return {check.name for check, yes in zip(skipped, same, strict=True) if yes}

    if len(alone) > 1 or not (names or skipped):
        return alone, False
    agrees = set() if names else agreeing(alone[0])
    in_pairs = (
        [candidate for candidate in candidates if not_passed.intersection(candidate.fails)] if names else possible
    )
    for pair in pairs(in_pairs, alone):
        same = all(all(same_replies(checks, pair, not names)) for checks in (failed[:1], failed[1:]))
        if same and (names or agreeing(pair) > agrees):
            return list(pair.mistakes), True
    return alone, False


def _explains_most(
    names: set[str], failed: Sequence[Check], possible: Sequence[KnownWrong], same_replies: SameReplies
) -> tuple[KnownWrong, set[str]] | None:
    """Returns the solution that explains the most of the checks `names`, and these checks.

    Of several such solutions, the solution with the fewest `fails`.
    """
    best: tuple[KnownWrong, set[str]] | None = None
    for candidate in sorted(possible, key=lambda candidate: (-len(names & set(candidate.fails)), len(candidate.fails))):
        checks = [check for check in failed if check.name in names & set(candidate.fails)]
        if not checks or (best and _rank(candidate, len(checks)) <= _rank(best[0], len(best[1]))):
            continue
        same = same_replies(checks, candidate, False)
        explained = {check.name for check, yes in zip(checks, same, strict=True) if yes}
        if not best or _rank(candidate, len(explained)) > _rank(best[0], len(best[1])):
            best = candidate, explained
    return best


def _rank(candidate: KnownWrong, explained: int) -> tuple[int, int]:
    return explained, -len(candidate.fails)


def same_answers(reply: Reply, other: Reply, names: set[str] | None = None, tolerance: float = 1e-9) -> bool:
    """Returns whether two replies agree, in all answers or in the answers called `names`; see `Check.tolerance`."""
    if reply.status != other.status:
        return False
    if reply.status != "answered":
        return _cause(reply) == _cause(other)
    if not names and reply.answers.keys() != other.answers.keys():  # before the loop: a forgery may have many answers
        return False
    return all(
        name in reply.answers and name in other.answers and _agree(reply.answers[name], other.answers[name], tolerance)
        for name in (names or other.answers.keys()) - {PLACES}
    )


def _cause(reply: Reply) -> str:
    return INCIDENTAL.sub("", reply.cause or reply.text.split(": ", 1)[-1])


def _agree(answer: Any, other: Any, tolerance: float) -> bool:
    """Returns whether two answers agree, whole numbers exactly: 4 bytes in a terabyte tell mistakes apart."""
    if isinstance(answer, list) and isinstance(other, list):
        return len(answer) == len(other) and all(_agree(a, b, tolerance) for a, b in zip(answer, other, strict=True))
    return equal(answer, other, 0.0 if type(answer) is int and type(other) is int else tolerance)
