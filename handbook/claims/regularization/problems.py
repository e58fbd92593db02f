"""Claims of handbook/regularization.md: the answers of its problems and of its boxed condition."""

import math
from collections.abc import Mapping

from rankzero.claims.claim import claim

from .experiment import STEPS, _run


@claim(
    "regularization-problem-answers",
    "From step 15 to 80 validation rises by {expected[rise]:.2f} nats. Weights fall to 90 % in 1,000 steps at 3e-4 "
    "with decay {expected[decay]}. Three dropouts of 0.2 have a variance of {expected[variance]}, one of "
    "{expected[p]} the same. Smoothing 0.1 on 16 classes leaves a perplexity of {expected[perplexity]}. An average "
    "that leaves 1 % of noise has β = {expected[beta]:.3f} and a half-life of {expected[half-life]} steps.",
    expected={
        "rise": 2.15,
        "decay": 0.351,
        "variance": 0.953,
        "p": 0.488,
        "perplexity": 1.103,
        "beta": 0.98,
        "half-life": 35,
    },
    tolerance=0.03,
    unit="as named",
)
def problem_answers() -> Mapping[str, float]:
    """Computes the answers from the formulas of the chapter, and the rise from its first run.

    The tolerance is the run's; formulas are exact.
    """
    run, beta = _run(), 0.99 / 1.01
    return {
        "rise": run.val[STEPS] - run.val[15],
        "decay": -math.log(0.9) / (3e-4 * 1000),
        "variance": 0.8**-3 - 1,
        "p": 1 - 0.8**3,
        "perplexity": 1 / (0.9 + 0.1 / 16),
        "beta": beta,
        "half-life": math.log(2) / (1 - beta),
    }
