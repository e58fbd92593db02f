"""Predict, run, explain: says by what factor a prediction was off."""

import math


def compare(prediction: object, measured: float, unit: str) -> None:
    """Prints the prediction, the measurement and the factor between them.

    `prediction` is the learner's number in `unit`; None, or anything that is not a number, counts as unanswered.
    """
    result = f"{measured:,.4g} {unit}" if abs(measured) < 1e4 else f"{measured:,.0f} {unit}"
    if isinstance(prediction, bool) or not isinstance(prediction, int | float) or math.isnan(prediction):
        print(f"No prediction yet. Measured: {result}. Write your number above, then run this cell again.")
    elif math.isclose(prediction, measured, rel_tol=0.01):
        print(f"You said {prediction:,.6g} {unit}; measured {result}: right within 1 %.")
    elif prediction * measured <= 0:
        print(f"You said {prediction:,.6g} {unit}; measured {result}.")
    else:
        factor = max(prediction / measured, measured / prediction)
        direction = "high" if abs(prediction) > abs(measured) else "low"
        print(f"You said {prediction:,.6g} {unit}; measured {result}: {factor:.3g} times too {direction}.")
