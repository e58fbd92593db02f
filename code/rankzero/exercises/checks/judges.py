"""Judges that many checks need: each compares what a probe brought back with the reference's, and words the mistake.

What comes back may be forged, and be anything: a judge neither breaks at it nor repeats it at length.
"""

from collections.abc import Callable

import numpy as np

from rankzero.exercises.checks.check import Judge
from rankzero.exercises.probes.answers import Answers, equal, same_form

# In float64 two right ways to compute differ by some 1e-13 in the labs' small models (a few hundred operations of
# 1e-16, amplified by a few steps of training); the smallest known mistake differs by more than 1e-7.
TOLERANCE = 1e-9


def equals_reference(name: str, tolerance: float, says: Callable[[object, object], str]) -> Judge:
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


def has_reference_form(*names: str) -> Judge:
    """These answers have the reference's types and sizes. For what a probe notes in one form, whatever the code did."""

    def judge(got: Answers, expected: Answers) -> str | None:
        odd = next((name for name in names if not same_form(got.get(name), expected[name])), None)
        return odd and f"the answer `{odd}` does not have the form that the probe gives it."

    return judge


def same_length(name: str) -> Judge:
    """`name` is a list as long as the reference's, for a probe that asks several times."""

    def judge(got: Answers, expected: Answers) -> str | None:
        count = len(got[name]) if isinstance(got.get(name), list) else 0
        return None if count == len(expected[name]) else f"{count} answers came back; expected {len(expected[name])}."

    return judge


def number_equals(name: str, what: str, tolerance: float = TOLERANCE) -> Judge:
    """The number `name` is the reference's."""
    return equals_reference(name, tolerance, lambda got, expected: f"{what} {mismatch_text(got, expected)}")


def numbers_equal(name: str, *what: str, tolerance: float = TOLERANCE) -> Judge:
    """Each number of the list `name` is the reference's; the first that is not is called by its place in `what`."""

    def judge(got: Answers, expected: Answers) -> str | None:
        found = got.get(name)
        found = found if isinstance(found, list) else []
        for place, wanted in enumerate(expected[name]):
            mine = found[place] if place < len(found) else None
            if not equal(mine, wanted, tolerance):
                return f"{what[place]} {mismatch_text(mine, wanted)}"
        more = len(found) - len(expected[name])
        return f"{more} more came back than {what[-1]}." if more else None

    return judge


def same_weights(when: str) -> Judge:
    """The weights are the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        mine, wanted = got.get("weights"), expected["weights"]
        if equal(mine, wanted, TOLERANCE):
            return None
        if not isinstance(mine, np.ndarray):
            return f"{when}, the model has no weights."
        if mine.shape != wanted.shape:
            return f"{when}, the model has {mine.size} weights; expected {wanted.size}."
        worst = int(np.nanargmax(np.abs(np.nan_to_num(mine, nan=np.inf) - wanted)))
        both = mismatch_text(float(mine[worst]), float(wanted[worst]))
        return f"{when}, weight {worst} of {len(wanted)} {both}"

    return judge


def ran_on_the_batches() -> Judge:
    """The model gave what it gives on the probe's batches; see forward_recorder.py."""
    what = "the model did not run on all of the batches, and nothing else: the mean of its logits"
    return equals_reference("logits", TOLERANCE, lambda got, expected: f"{what} {mismatch_text(got, expected)}")


def is_of_type(kind: str, what: str, hint: str = "") -> Judge:
    """What came back is of the type `kind`, by its name."""

    def judge(got: Answers, expected: Answers) -> str | None:
        found = got.get("type")
        return None if equal(found, kind) else f"what came back is of type {shorten(found)}; {what} was expected{hint}."

    return judge


def mismatch_text(got: object, expected: object) -> str:
    """'is 0.929465; expected 0.929466.', with as many digits as it takes to tell them apart."""
    for digits in (6, 9, 12, 15):
        mine, wanted = _value_text(got, digits), _value_text(expected, digits)
        if mine != wanted:
            break
    return f"is {mine}; expected {wanted}."


def shorten(value: object, length: int = 80) -> str:
    """Its text in one line, cut where it is longer."""
    text = " ".join(str(value)[: 10 * length].split())
    return text if len(text) <= length else f"{text[:length]} ..."


def _value_text(got: object, digits: int) -> str:
    if isinstance(got, list):
        some = [_value_text(one, digits) if not isinstance(one, list) else shorten(one, 40) for one in got[:6]]
        return "[" + ", ".join(some + ["..."] * (len(got) > 6)) + "]"
    if isinstance(got, float):
        return f"{got:.{digits}f}" if abs(got) < 1e15 else f"{got:.{digits}g}"
    return "no number" if got is None else shorten(got, 40)
