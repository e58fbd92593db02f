"""Claims of handbook/activation-functions.md: the answers of its problems."""

import math
from collections.abc import Mapping

from rankzero.claims.claim import claim


@claim(
    "activation-problem-answers",
    "A leaky ReLU with derivative 0.2 on the left needs a gain of {expected[gain]}. A "
    "sigmoid's derivative is a tenth of its largest at "
    "{expected[sigmoid]}, a tanh's at {expected[tanh]}. SwiGLU keeps as much as a GELU MLP at a width of "
    "{expected[width]} C, with {expected[weights]} of its weights.",
    expected={"gain": 1.387, "sigmoid": 3.637, "tanh": 1.818, "width": 2, "weights": 0.75},
    tolerance=0.001,
    unit="as named",
)
def problem_answers() -> Mapping[str, float]:
    """Computes the answers from the formulas of the chapter."""
    share = 0.5 + math.sqrt(0.25 - 0.1 * 0.25)  # s(1 - s) = 0.1 * 0.25
    width = (9 - 1) / 4
    return {
        "gain": math.sqrt(2 / (1 + 0.2**2)),
        "sigmoid": math.log(share / (1 - share)),
        "tanh": math.atanh(math.sqrt(0.9)),
        "width": width,
        "weights": 3 * width / 8,
    }
