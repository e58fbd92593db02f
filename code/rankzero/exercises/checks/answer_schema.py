"""Answer schema: expected types and shapes, where an answer's form depends on the learner's code; a judge's first step.

`judges.has_reference_form` is for answers that always have the form of the reference's.
"""

from collections.abc import Callable
from typing import Any

from rankzero.exercises.checks.check import Judge

Form = Callable[[Any], bool]


def integer(value: Any) -> bool:
    """A whole number, short enough to print in a sentence."""
    return type(value) is int and abs(value) < 10**15


def count(value: Any) -> bool:
    """A whole number, 0 or more."""
    return integer(value) and value >= 0


def real_number(value: Any) -> bool:
    """A number, whole or not; NaN and infinity included."""
    return type(value) is float or integer(value)


def short_text(value: Any) -> bool:
    """A short line of text."""
    return type(value) is str and len(value) <= 120 and value.isprintable()


def boolean(value: Any) -> bool:
    """True or False."""
    return type(value) is bool


def list_of(form: Form) -> Form:
    """A list of any length whose items all have `form`."""
    return lambda value: isinstance(value, list) and all(form(item) for item in value)


def row_of(*forms: Form) -> Form:
    """A list with one value per form, in the order of `forms`."""
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(forms)
        and all(form(item) for form, item in zip(forms, value, strict=True))
    )


def either(*forms: Form) -> Form:
    """A value of any of these forms."""
    return lambda value: any(form(value) for form in forms)


def none(value: Any) -> bool:
    """None."""
    return value is None


def has_form(name: str, form: Form, depth: int = 0) -> Judge:
    """Passes if the answer `name` has this form.

    With `depth`, the answer is that many nested lists of such values, each as long as the reference's.
    """
    failure = f"the answer `{name}` does not have the form that the probe gives it."
    return lambda got, expected: None if _in_lists(got.get(name), expected[name], depth, form) else failure


def _in_lists(got: Any, expected: Any, depth: int, form: Form) -> bool:
    if not depth:
        return form(got)
    if not isinstance(got, list) or not isinstance(expected, list) or len(got) != len(expected):
        return False
    return all(_in_lists(item, reference, depth - 1, form) for item, reference in zip(got, expected, strict=True))
