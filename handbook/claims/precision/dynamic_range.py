"""Claims of handbook/precision.md: range."""

import math
from collections.abc import Mapping

import torch

from rankzero.claims.chart import Chart, Charted, Point
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
def below_the_normal_numbers() -> Charted:
    """Counts in the fp32 gradient of real text, in all and by power of two.

    The text differs a little between Python versions.
    """
    gradient = gradients()["fp32"][0]
    nonzero = gradient[gradient != 0]
    value = {
        "below 2^-14": 100 * float((nonzero.abs() < 2.0**-14).double().mean()),
        "zero when cast": 100 * float((nonzero.half() == 0).double().mean()),
        "1 or more": 100 * float((nonzero.abs() >= 1).double().mean()),
    }
    powers, counts = nonzero.abs().double().log2().floor().int().unique(return_counts=True)
    shares = [100 * count / len(nonzero) for count in counts.tolist()]
    points: list[Point] = [(power, *[share] * 3) for power, share in zip(powers.tolist(), shares, strict=True)]
    axes = "power of two at or below the gradient's magnitude", "% of gradients"
    return Charted(value, Chart("Gradients of Lab 03's first batch", *axes, {"gradients": points}))


@claim(
    "precision-bf16-logits",
    "Rounding logits to bf16 changes a probability by up to {expected[16]:.0f} % where the largest logit is 16, "
    "{expected[26]:.0f} % where it is 26, and {expected[54]:.0f} % where it is 54.",
    expected={"16": 6, "26": 12, "54": 27},
    tolerance=1.0,
    unit="% of the probability",
)
def bf16_logits() -> Mapping[str, float]:
    """Rounds 300 rows of 1,000 normal logits, scaled to this largest magnitude, and compares the softmaxes in fp64."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(300, 1000, generator=generator, dtype=torch.float64)
    logits /= logits.abs().amax(1, keepdim=True)
    changes = {}
    for largest in (16, 26, 54):
        exact = (largest * logits).softmax(-1)
        rounded = (largest * logits).bfloat16().double().softmax(-1)
        changes[str(largest)] = 100 * float((rounded / exact - 1).abs().max())
    return changes


@claim(
    "precision-reduced-sums",
    "PyTorch's flags that allow partial sums of 16-bit matrix products to be added in 16 bits on CUDA are on by "
    "default, for bf16 and for fp16.",
    expected={"bf16": 1, "fp16": 1},
    unit="1: allowed",
    source="https://docs.pytorch.org/docs/stable/notes/cuda.html#reduced-precision-reduction-in-bf16-gemms",
)
def reduced_sums() -> Mapping[str, float]:
    """Reads torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction and its twin for fp16."""
    matmul = torch.backends.cuda.matmul
    return {
        "bf16": int(matmul.allow_bf16_reduced_precision_reduction),
        "fp16": int(matmul.allow_fp16_reduced_precision_reduction),
    }
