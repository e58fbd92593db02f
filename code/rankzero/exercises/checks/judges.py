"""Judges that many checks need: each compares a probe's answers with the reference's and describes the first mistake.

Answers may be forged and hold any value: a judge raises no error on them, and shortens them in its sentences.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rankzero.exercises.checks.check import Judge
from rankzero.exercises.probes.answers import Answers, equal, same_form

# Two correct float64 computations differ by about 1e-13 in the labs' small models (a few hundred rounding errors of
# 1e-16, amplified by a few steps of training). The smallest known mistake differs by more than 1e-7.
TOLERANCE = 1e-9
FP32_ROUNDING = 3e-7  # fp32 rounds at 6e-8; a few roundings do not cancel
ROUNDING = " A difference this small appears where numbers are rounded to fp32 on the way."


def items_of(answers: Answers, name: str, count: int) -> list[Any]:
    """Returns an answer that is a list of `count` items; anything else counts as so many missing ones."""
    items = answers.get(name)
    return items if isinstance(items, list) and len(items) == count else [None] * count


def equals_reference(name: str, tolerance: float, says: Callable[[object, object], str]) -> Judge:
    """Passes if the answer `name` equals the reference's within `tolerance`; else returns `says(got, expected)`."""
    return lambda got, expected: (
        None if equal(got.get(name), expected[name], tolerance) else says(got.get(name), expected[name])
    )


def all_of(*judges: Judge) -> Judge:
    """Passes if every judge passes; otherwise returns the first failure."""
    return lambda got, expected: next((failure for judge in judges if (failure := judge(got, expected))), None)


def items(got: object, expected: list[Any]) -> list[Any]:
    """Returns the list `got` if it is as long as `expected`, and otherwise as many times None."""
    return got if isinstance(got, list) and len(got) == len(expected) else [None] * len(expected)


def says(name: str, failure: str) -> Judge:
    """Passes if the answer `name` equals the reference's; `failure` may show both, as {got} and {expected}."""
    return equals_reference(name, 0, lambda got, expected: failure.format(got=shorten(got), expected=shorten(expected)))


def each_says(name: str, subjects: tuple[str, ...], failure: str) -> Judge:
    """Passes if each item of the list `name` equals the reference's; `subjects` name the items.

    `failure` may show {subject}, {got} and {expected}; without {subject}, it follows the subject and a colon.
    """
    sentence = failure if "{subject}" in failure else f"{{subject}}: {failure}"

    def judge(got: Answers, expected: Answers) -> str | None:
        for subject, item, reference in zip(
            subjects, items(got.get(name), expected[name]), expected[name], strict=True
        ):
            if not equal(item, reference):
                return sentence.format(subject=subject, got=shorten(item), expected=shorten(reference))
        return None

    return judge


def has_reference_form(*names: str) -> Judge:
    """Passes if these answers have the reference's types and sizes, for answers of a fixed form."""

    def judge(got: Answers, expected: Answers) -> str | None:
        malformed = next((name for name in names if not same_form(got.get(name), expected[name])), None)
        return malformed and f"the answer `{malformed}` does not have the form that the probe gives it."

    return judge


def same_length(name: str) -> Judge:
    """Passes if the answer `name` is a list as long as the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        count = len(got[name]) if isinstance(got.get(name), list) else 0
        return None if count == len(expected[name]) else f"{count} answers came back; expected {len(expected[name])}."

    return judge


def number_equals(name: str, subject: str, tolerance: float = TOLERANCE) -> Judge:
    """Passes if the number `name` equals the reference's. `subject` begins the failure's sentence."""
    return equals_reference(
        name, tolerance, lambda got, expected: f"{subject} {mismatch_text(got, expected)}{rounding_text(got, expected)}"
    )


def numbers_equal(name: str, *subjects: str, tolerance: float = TOLERANCE) -> Judge:
    """Passes if each number of the list `name` equals the reference's; `subjects` name the numbers."""

    def judge(got: Answers, expected: Answers) -> str | None:
        numbers = got.get(name)
        numbers = numbers if isinstance(numbers, list) else []
        for index, reference in enumerate(expected[name]):
            number = numbers[index] if index < len(numbers) else None
            if not equal(number, reference, tolerance):
                return f"{subjects[index]} {mismatch_text(number, reference)}{rounding_text(number, reference)}"
        surplus = len(numbers) - len(expected[name])
        return f"{len(numbers)} numbers came back; expected {len(expected[name])}." if surplus else None

    return judge


def same_weights(when: str) -> Judge:
    """Passes if the answer `weights` equals the reference's; the failure names the worst weight and its parameter.

    The reference's `parts` are the name and shape of each parameter; the weights may be those of several moments.
    """

    def judge(got: Answers, expected: Answers) -> str | None:
        weights, reference = got.get("weights"), expected["weights"]
        if equal(weights, reference, TOLERANCE):
            return None
        if not isinstance(weights, np.ndarray):
            return f"{when}, the model has no weights."
        if weights.shape != reference.shape:
            return f"{when}, the model has {weights.size} weights; expected {reference.size}."
        differences = np.abs(np.nan_to_num(weights, nan=np.inf) - reference)
        worst = int(np.nanargmax(differences))
        pair = float(weights[worst]), float(reference[worst])
        place, others = _parameter_text(differences > TOLERANCE * (1 + np.abs(reference)), worst, expected["parts"])
        return f"{when}, {place} {mismatch_text(*pair)}{others}{rounding_text(*pair)}"

    return judge


def _parameter_text(differ: np.ndarray, place: int, parts: list[list[Any]]) -> tuple[str, str]:
    """Returns the weight at `place` by its parameter, as 'head.weight[3, 5]', and how many parameters differ."""
    sizes = [math.prod(shape) for _, *shape in parts]
    ends = np.cumsum(sizes)
    place %= ends[-1]
    part = int(np.searchsorted(ends, place, side="right"))
    name, *shape = parts[part]
    index = np.unravel_index(place - (ends[part] - sizes[part]), shape)
    wrong = [mine.any() for mine in np.split(differ.reshape(-1, ends[-1]).any(axis=0), ends[:-1])]
    count, most = sum(wrong), len(parts)
    told = f"All {most} parameters differ" if count == most else f"{count} of {most} parameters differ"
    return f"{name}[{', '.join(map(str, index))}]", f" {told if count > 1 else 'No other parameter differs'}."


def ran_on_the_batches() -> Judge:
    """Passes if the model ran on exactly the probe's batches, by the mean of its logits; see forward_recorder.py."""
    return number_equals("logits", "the model did not run on exactly the probe's batches: the mean of its logits")


def is_of_type(kind: str, form: str, hint: str = "") -> Judge:
    """Passes if the answer `type` is `kind`, a type's name."""

    def judge(got: Answers, expected: Answers) -> str | None:
        name = got.get("type")
        if equal(name, kind):
            return None
        return f"the return value is of type {shorten(name)}; expected {form.rstrip(',')}{hint}."

    return judge


def mismatch_text(got: object, expected: object) -> str:
    """Returns 'is 0.929465; expected 0.929466.', with enough digits that the numbers differ."""
    if isinstance(got, list) and isinstance(expected, list) and equal(got[:6], expected[:6], TOLERANCE):
        if len(got) != len(expected):
            return f"has {len(got)} items; expected {len(expected)}."
        for place, (item, reference) in enumerate(zip(got, expected, strict=True)):
            if not equal(item, reference, TOLERANCE):
                return f"at index {place} {mismatch_text(item, reference)}"
    for digits in (6, 9, 12, 15):
        got_text, expected_text = _value_text(got, digits), _value_text(expected, digits)
        if got_text != expected_text:
            break
    else:
        got_text, expected_text = shorten(repr(got), 40), shorten(repr(expected), 40)
    return f"is {got_text}; expected {expected_text}."


def rounding_text(got: object, expected: object) -> str:
    """Returns a sentence on fp32 for two fractions that differ in the seventh digit or later, otherwise ''."""
    fractions = all(isinstance(value, float) and not value.is_integer() for value in (got, expected))
    small = fractions and equal(got, expected, FP32_ROUNDING)
    return ROUNDING if small else ""


def shorten(value: object, length: int = 80) -> str:
    """Returns the value's text on one line, cut after `length` characters."""
    text = " ".join(str(value)[: 10 * length].split())
    return text if len(text) <= length else f"{text[:length]} ..."


def _value_text(value: object, digits: int) -> str:
    if isinstance(value, list):
        first = [_value_text(item, digits) if not isinstance(item, list) else shorten(item, 40) for item in value[:6]]
        return "[" + ", ".join(first + ["..."] * (len(value) > 6)) + "]"
    if isinstance(value, float):
        return f"{value:.{digits}f}" if abs(value) < 1e15 else f"{value:.{digits}g}"
    return shorten(value, 60 if isinstance(value, str) else 40)
