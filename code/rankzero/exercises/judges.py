"""Judges that many checks need: each compares what a probe brought back with the reference's, and words the mistake."""

from collections.abc import Callable

import numpy as np

from rankzero.exercises.answers import Answers, equal
from rankzero.exercises.check import Judge

# In float64 two right ways to compute differ by some 1e-13 in the labs' small models (a few hundred operations of
# 1e-16, amplified by a few steps of training); the smallest known mistake differs by more than 1e-7.
CLOSE = 1e-9


def agrees(name: str, tolerance: float, says: Callable[[object, object], str]) -> Judge:
    """The answer `name` equals the reference's within `tolerance`. `says(got, expected)` words the mistake."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if equal(got.get(name), expected[name], tolerance):
            return None
        return says(got.get(name), expected[name])

    return judge


def all_of(*judges: Judge) -> Judge:
    """Content when all are; it says what the first discontented one says."""

    def judge(got: Answers, expected: Answers) -> str | None:
        return next((said for one in judges if (said := one(got, expected))), None)

    return judge


def value(name: str, what: str, tolerance: float = CLOSE) -> Judge:
    """The number `name` is the reference's."""
    return agrees(name, tolerance, lambda got, expected: f"{what} {is_but_expected(got, expected)}")


def values(name: str, *what: str, tolerance: float = CLOSE) -> Judge:
    """Each number of the list `name` is the reference's; the first that is not is called by its place in `what`."""

    def judge(got: Answers, expected: Answers) -> str | None:
        found = got[name] if isinstance(got[name], list) else []
        for place, wanted in enumerate(expected[name]):
            mine = found[place] if place < len(found) else None
            if not equal(mine, wanted, tolerance):
                return f"{what[place]} {is_but_expected(mine, wanted)}"
        return None

    return judge


def same_weights(when: str) -> Judge:
    """The weights are the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got["weights"], expected["weights"]
        if equal(mine, wanted, CLOSE):
            return None
        if mine.shape != wanted.shape:
            return f"{when}, the model has {mine.size} weights; expected {wanted.size}."
        worst = int(np.nanargmax(np.abs(np.nan_to_num(mine, nan=np.inf) - wanted)))
        both = is_but_expected(float(mine[worst]), float(wanted[worst]))
        return f"{when}, weight {worst} of {len(wanted)} {both}"

    return judge


def is_a(kind: str, what: str, hint: str = "") -> Judge:
    """What came back is of the type `kind`, by its name."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if got["type"] == kind:
            return None
        return f"what came back is of type {got['type']}; {what} was expected{hint}."

    return judge


def is_but_expected(got: object, expected: object) -> str:
    """'is 0.929465; expected 0.929466.', with as many digits as it takes to tell them apart."""
    for digits in (6, 9, 12, 15):
        mine, wanted = _worded(got, digits), _worded(expected, digits)
        if mine != wanted:
            break
    return f"is {mine}; expected {wanted}."


def _worded(got: object, digits: int) -> str:
    if isinstance(got, list):
        return "[" + ", ".join(_worded(one, digits) for one in got) + "]"
    if isinstance(got, float):
        return f"{got:.{digits}f}"
    return "no number" if got is None else str(got)
