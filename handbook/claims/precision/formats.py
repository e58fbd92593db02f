"""Claims of handbook/precision.md: formats and rounding."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import text_model
from rankzero.claims.toolkit.low_precision import gradients

FP8 = "https://arxiv.org/abs/2209.05433"


def every_number(dtype: torch.dtype) -> Tensor:
    """Every number of an 8- or 16-bit format, fp64, made from every pattern of bits there is."""
    if torch.empty((), dtype=dtype).element_size() == 1:
        return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype).double()
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).double()


def landmarks(numbers: Tensor) -> dict[str, float]:
    """Largest number, smallest normal one, smallest of all, and the distance from 1 to the next larger."""
    finite = numbers[numbers.isfinite()]
    positive = finite[finite > 0].sort().values
    gaps = positive.diff()
    # Below the smallest normal number all gaps are equal; from there on they double with each power of two.
    first_double = int((gaps > gaps[0]).nonzero()[0])
    powers = positive[torch.frexp(positive).mantissa == 0.5]
    normal = powers[powers <= positive[first_double]].max() / 2
    return {
        "max": float(positive[-1]),
        "min normal": float(normal),
        "min": float(positive[0]),
        "eps": float(positive[positive > 1][0] - 1),
    }


@claim(
    "precision-fp16",
    "fp16: max {expected[max]}, smallest normal number 2^-14 = 6.1e-5, smallest number 2^-24, next after 1 is 1 + "
    "2^-10.",
    expected={"max": 65504, "min normal": 2.0**-14, "min": 2.0**-24, "eps": 2.0**-10},
    unit="",
)
def fp16() -> Mapping[str, float]:
    """Sorts the numbers of all 65,536 bit patterns and looks where the gaps between them begin to grow."""
    return landmarks(every_number(torch.float16))


@claim(
    "precision-bf16",
    "bf16: max 3.39e38, smallest normal number 2^-126 = 1.18e-38, smallest number 2^-133, next after 1 is 1 + 2^-7.",
    expected={"max": (2 - 2.0**-7) * 2.0**127, "min normal": 2.0**-126, "min": 2.0**-133, "eps": 2.0**-7},
    unit="",
)
def bf16() -> Mapping[str, float]:
    """The same over all bit patterns of bf16."""
    return landmarks(every_number(torch.bfloat16))


@claim(
    "precision-fp32",
    "fp32: max 3.40e38, smallest normal number 2^-126, smallest number 2^-149, next after 1 is 1 + 2^-23.",
    expected={"max": (2 - 2.0**-23) * 2.0**127, "min normal": 2.0**-126, "min": 2.0**-149, "eps": 2.0**-23},
    unit="",
)
def fp32() -> Mapping[str, float]:
    """Reads the numbers of four bit patterns: all ones below inf, exponent 1, mantissa 1, and 1's with mantissa 1."""
    patterns = torch.tensor([0x7F7FFFFF, 0x00800000, 0x00000001, 0x3F800001], dtype=torch.int32)
    largest, normal, smallest, after_one = patterns.view(torch.float32).double().tolist()
    return {"max": largest, "min normal": normal, "min": smallest, "eps": after_one - 1}


@claim(
    "precision-fp8",
    "fp8: e4m3fn reaches {expected[e4m3fn max]} with eps {expected[e4m3fn eps]}, e5m2 {expected[e5m2 max]} with eps "
    "{expected[e5m2 eps]}; smallest normal numbers 2^-6 and 2^-14.",
    expected={
        "e4m3fn max": 448,
        "e4m3fn min normal": 2.0**-6,
        "e4m3fn eps": 0.125,
        "e5m2 max": 57344,
        "e5m2 min normal": 2.0**-14,
        "e5m2 eps": 0.25,
    },
    unit="",
    source=FP8,
)
def fp8() -> Mapping[str, float]:
    """Sorts the numbers of all 256 bit patterns of each format."""
    found = {"e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    return {
        f"{name} {what}": number
        for name, dtype in found.items()
        for what, number in landmarks(every_number(dtype)).items()
        if what != "min"
    }


@claim(
    "precision-bf16-is-half-of-fp32",
    "The 16 bits of a bf16 number are the first 16 of the same fp32 number.",
    expected=0,
    unit="of 65,536 bit patterns differ",
)
def bf16_is_half_of_fp32() -> float:
    """Widens every bf16 bit pattern to fp32 and compares its upper half; the lower half must be 0."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    wide = patterns.view(torch.bfloat16).float().view(torch.int32)
    number = ~patterns.view(torch.bfloat16).isnan()
    return int((wide[number] != (patterns.int() << 16)[number]).sum())


@claim(
    "precision-one-more-is-lost",
    "2,048 + 1 = 2,048 in fp16, 256 + 1 = 256 in bf16, and 16,777,216 + 1 = 16,777,216 in fp32.",
    expected={"fp16": 2048, "bf16": 256, "fp32": 16_777_216},
    unit="",
)
def one_more_is_lost() -> Mapping[str, float]:
    """Tries every power of two from 1 up and returns the first to which adding 1 changes nothing."""
    found = {}
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp32", torch.float32)):
        number = torch.ones((), dtype=dtype)
        while number + 1 != number:
            number = number * 2
        found[name] = number.item()
    return found


@claim(
    "precision-sum-stands-still",
    "Adding 1 to a bf16 number 10,000 times ends at {expected[one by one]}; torch.sum of 10,000 ones, which adds up "
    "in fp32 and rounds once, gives {expected[torch.sum]}.",
    expected={"one by one": 256, "torch.sum": 9984},
    unit="",
)
def sum_stands_still() -> Mapping[str, float]:
    """Does both."""
    ones, total = torch.ones(10_000, dtype=torch.bfloat16), torch.zeros((), dtype=torch.bfloat16)
    for one in ones:
        total = total + one
    return {"one by one": total.item(), "torch.sum": ones.sum().item()}


@claim(
    "precision-weights-that-do-not-move",
    "After AdamW's first step 7 % of Lab 02's weights have not moved if they are bf16 and the rate is 1e-4, and "
    "{expected[bf16, 1e-5]:.0f} % at 1e-5; in fp32 all have.",
    expected={"bf16, 1e-4": 7.1, "bf16, 1e-5": 73.7, "fp32, 1e-5": 0},
    tolerance=1.0,
    unit="% of weights",
)
def weights_that_do_not_move() -> Mapping[str, float]:
    """Takes the step with the gradient of Lab 03's first batch and counts weights equal to what they were."""

    def percent(dtype: torch.dtype, rate: float) -> float:
        model = text_model()
        model.to(dtype)
        gradient = gradients()["fp32"][0].to(dtype).split([p.numel() for p in model.parameters()])
        for parameter, part in zip(model.parameters(), gradient, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        AdamW(model.parameters(), lr=rate).step()
        same = sum(int((old == new).sum()) for old, new in zip(before, model.parameters(), strict=True))
        return 100 * same / model.parameter_count()

    return {
        "bf16, 1e-4": percent(torch.bfloat16, 1e-4),
        "bf16, 1e-5": percent(torch.bfloat16, 1e-5),
        "fp32, 1e-5": percent(torch.float32, 1e-5),
    }
