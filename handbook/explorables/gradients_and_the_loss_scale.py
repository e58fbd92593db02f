"""Explorable: Lab 03's gradients over fp16's range, moved by the loss scale."""

from rankzero.figures.charts import measured_chart


def part_of_fp16(power: float) -> str:
    """Returns what fp16 makes of magnitudes above 2^power, up to 2^(power + 1).

    Magnitudes above 2^-25 round up to the smallest subnormal number, 2^-24. From 65,520 on, just below 2^16, they
    round to inf.
    """
    if power >= 16:
        return "inf"
    if power >= -14:
        return "normal"
    return "subnormal" if power >= -25 else "zero"


FORMULAS = (part_of_fp16,)
# Percent of the gradients by the power of two at or below their magnitude.
DATA = [[point[0], point[1]] for point in measured_chart("precision-below-the-normal-numbers").lines["gradients"]]
