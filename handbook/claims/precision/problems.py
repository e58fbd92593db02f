"""Claims of handbook/precision.md: answers to the problems."""

import math
from collections.abc import Mapping

import torch

from rankzero.claims.claim import claim


@claim(
    "precision-problem-answers",
    "At a learning rate of 1e-4, bf16 weights of {expected[stuck from]} and more do not grow. Rounded stochastically, "
    "a weight of 1 moves in {expected[stochastic steps]:.1f} % of steps with an update of 1e-3, and is off by "
    "{expected[stochastic error]:.3f} after 100 steps. Ten thousand ones, added in blocks of 100 in bf16, make "
    "{expected[sum in blocks]:,}.",
    expected={
        "stuck from": 2.0**-5,
        "stochastic steps": 25.6,
        "stochastic error": 0.01704,
        "sum in blocks": 10_176,
    },
    tolerance=1e-5,
    unit="as named",
)
def problem_answers() -> Mapping[str, float]:
    """Adds the rate to powers of two until nothing changes; applies the formulas of the answer; sums in a loop."""
    weight = torch.tensor(2.0**-20, dtype=torch.bfloat16)
    while weight + 1e-4 != weight:
        weight = weight * 2
    spacing = torch.finfo(torch.bfloat16).eps / 2  # below 1
    share = 1e-3 / spacing
    block, total = torch.zeros((), dtype=torch.bfloat16), torch.zeros((), dtype=torch.bfloat16)
    for _ in range(100):
        block = block + 1
    for _ in range(100):
        total = total + block
    return {
        "stuck from": weight.item(),
        "stochastic steps": 100 * share,
        "stochastic error": spacing * math.sqrt(100 * share * (1 - share)),
        "sum in blocks": total.item(),
    }
