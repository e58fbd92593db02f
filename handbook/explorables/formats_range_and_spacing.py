"""Explorable: a floating-point number, bit by bit, in six formats."""

import math


def value_of_bits(bits: int, exponent_bits: int, fraction_bits: int, specials: str) -> float:
    """Returns the number that `bits`, read as an unsigned integer, encode: sign, exponent, fraction.

    `specials` tells what the largest exponent encodes: "inf and NaN" (IEEE 754), "NaN" (e4m3fn: only if all fraction
    bits are 1 too), or "none" (e2m1).
    """
    fraction = bits % 2**fraction_bits
    exponent = bits // 2**fraction_bits % 2**exponent_bits
    sign = -1.0 if bits >= 2 ** (exponent_bits + fraction_bits) else 1.0
    bias, largest = 2 ** (exponent_bits - 1) - 1, 2**exponent_bits - 1
    if exponent == largest and specials == "inf and NaN":
        return sign * math.inf if fraction == 0 else math.nan
    if exponent == largest and specials == "NaN" and fraction == 2**fraction_bits - 1:
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / 2**fraction_bits) * 2.0 ** (exponent - bias)


FORMULAS = (value_of_bits,)
# Exponent bits, fraction bits, and what the largest exponent encodes.
DATA: dict[str, tuple[int, int, str]] = {
    "fp32": (8, 23, "inf and NaN"),
    "bf16": (8, 7, "inf and NaN"),
    "fp16": (5, 10, "inf and NaN"),
    "fp8 e5m2": (5, 2, "inf and NaN"),
    "fp8 e4m3": (4, 3, "NaN"),
    "fp4 e2m1": (2, 1, "none"),
}
