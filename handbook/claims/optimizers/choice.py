"""Claims of handbook/optimizers.md: the choice of an optimizer."""

import math
from collections.abc import Callable, Mapping

from torch.optim import SGD

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.counting_gpt import STEPS, excess


@claim(
    "sgd-against-adamw",
    "On counting text SGD with its own best rate, 1.0, ends 0.03 nats behind AdamW at 0.03; at 0.03 it is "
    "{expected[SGD, 0.03]:.1f} behind.",
    expected={"AdamW, 0.03": 0.07, "SGD, 1.0": 0.10, "SGD, 0.03": 1.84},
    tolerance=0.05,
    unit="nats per token above the floor",
)
def sgd_against_adamw() -> Mapping[str, float]:
    """Trains a tiny GPT for 100 steps with a cosine to 0, in float64, and scores it on new text."""

    def cosine(peak: float) -> Callable[[int], float]:
        return lambda step: peak * 0.5 * (1 + math.cos(math.pi * step / STEPS))

    return {
        "AdamW, 0.03": excess(cosine(0.03)),
        "SGD, 1.0": excess(cosine(1.0), make=lambda p: SGD(p)),
        "SGD, 0.03": excess(cosine(0.03), make=lambda p: SGD(p)),
    }
