"""Predictions of a notebook compared with measurements: the factor between the two."""

import math


def answered(*predictions: object) -> bool:
    """Returns whether every prediction is a number. A cell shows its tables and plots only then."""
    return all(
        isinstance(prediction, int | float) and not isinstance(prediction, bool) and not math.isnan(prediction)
        for prediction in predictions
    )


def compare(prediction: object, measured: float, unit: str, of: str = "") -> None:
    """Prints the prediction, the measurement and the factor between them.

    `prediction` is the learner's number in `unit`. Without a prediction, which is None or any other value that is not a
    number, the measurement is not printed. `of` names the measured quantity, where one cell compares several.
    """
    subject = f"{of}: " if of else ""
    result = f"{_number(measured)} {unit}"
    if not isinstance(prediction, int | float) or not answered(prediction):
        print(f"{subject}no prediction yet. Replace None above by {_asked(unit)}, then run this cell again.")
        return
    if math.isclose(prediction, measured, rel_tol=0.01):
        verdict = "right within 1 %"
    elif prediction * measured <= 0:
        verdict = "another sign, or zero"
    else:
        factor = max(prediction / measured, measured / prediction)
        verdict = f"{factor:.3g} times too {'high' if abs(prediction) > abs(measured) else 'low'}"
    print(f"{subject}you said {_number(prediction)}, measured {result}: {verdict}.")


def _asked(unit: str) -> str:
    """Returns what the learner is to write, in words: 'a number of MiB', 'a fraction of the step', 'a factor'."""
    if unit.startswith("of "):
        return f"a fraction {unit}"
    if unit.startswith("times"):
        return "a factor" if unit == "times" else f"a factor ({unit})"
    if unit in ("%", "percent"):
        return "a percentage"
    return f"a {unit}" if unit == "power of ten" else f"a number of {unit}"


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
