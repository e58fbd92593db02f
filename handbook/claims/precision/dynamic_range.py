"""Claims of handbook/precision.md: range."""

import math
from collections.abc import Mapping

import torch

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.low_precision import gradients


@claim(
    "precision-fp16-edges",
    "fp16: 65,519 becomes 65,504 and 65,520 inf; 2^-24 survives and 2^-25 becomes 0; 256 squared is inf.",
    expected=True,
    unit="",
)
def fp16_edges() -> bool:
    """Casts the first four and squares the fifth."""
    below, above, small, smaller = torch.tensor([65519.0, 65520.0, 2.0**-24, 2.0**-25]).half().tolist()
    square = torch.tensor(256.0).half().square().item()
    return (below, above, small, smaller, square) == (65504, math.inf, 2.0**-24, 0, math.inf)


@claim(
    "precision-below-the-normal-numbers",
    "{expected[below 2^-14]:.0f} % of the gradients of Lab 03's first batch lie below fp16's smallest normal number, "
    "2^-14, where digits are lost; 2 in 10,000 become 0 when they are cast, and none reaches 1.",
    expected={"below 2^-14": 17.1, "zero when cast": 0.02, "1 or more": 0},
    tolerance=1.0,
    unit="% of gradients",
)
def below_the_normal_numbers() -> Mapping[str, float]:
    """Counts in the fp32 gradient of real text. The text differs a little between Python versions."""
    gradient = gradients()["fp32"][0]
    there = gradient[gradient != 0]
    return {
        "below 2^-14": 100 * float((there.abs() < 2.0**-14).double().mean()),
        "zero when cast": 100 * float((there.half() == 0).double().mean()),
        "1 or more": 100 * float((there.abs() >= 1).double().mean()),
    }
