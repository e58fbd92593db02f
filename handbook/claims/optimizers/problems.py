"""Claims of handbook/optimizers.md: the answers of its problems."""

import math
from collections.abc import Mapping

from rankzero.claims.claim import claim


@claim(
    "optimizers-problem-answers",
    "On noise Adam's steps are {expected[noise, 0.9]:.2f} times the rate with beta1 = 0.9 and "
    "{expected[noise, 0.95]:.2f} with 0.95. After a jump of the gradients the longest step is "
    "{expected[jump, 0.98]:.2f} times the rate with beta2 = 0.98. A first weight is at {expected[weight left]:.3f} "
    "after 100,000 steps at rate 3e-4 and decay 0.1. Adafactor takes {expected[Adafactor]} bytes per 1,000 parameters "
    "of a 4096 x 11008 matrix. Classical momentum is within 10 % of the new step {expected[updates]} updates after a "
    "cut. For a gradient of 1e-5, epsilon outside the root leaves {expected[outside]:.3f} of the rate, and under it "
    "{expected[under]:.2f}.",
    expected={
        "noise, 0.9": 0.229,
        "noise, 0.95": 0.160,
        "jump, 0.98": 1.554,
        "weight left": 0.0498,
        "Adafactor": 1.34,
        "updates": 43,
        "outside": 0.999,
        "under": 0.0995,
    },
    tolerance=0.001,
    unit="as named",
)
def problem_answers() -> Mapping[str, float]:
    """Computes the answers from the formulas of the chapter."""

    def on_noise(beta1: float) -> float:
        return math.sqrt((1 - beta1) / (1 + beta1))

    def after_jump(t: int) -> float:
        return (1 - 0.9**t) / math.sqrt(1 - 0.98**t)

    return {
        "noise, 0.9": on_noise(0.9),
        "noise, 0.95": on_noise(0.95),
        "jump, 0.98": max(after_jump(t) for t in range(1, 1000)),
        "weight left": (1 - 3e-4 * 0.1) ** 100_000,
        "Adafactor": 1000 * 4 * (4096 + 11008) / (4096 * 11008),
        "updates": next(t for t in range(1000) if 1 + 9 * 0.9**t <= 1.1),
        "outside": 1e-5 / (1e-5 + 1e-8),
        "under": 1e-5 / math.sqrt(1e-5**2 + 1e-8),
    }
