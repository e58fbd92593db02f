"""Claims of handbook/precision.md: formats and rounding."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import text_model
from rankzero.claims.toolkit.low_precision import gradients

FP8 = "https://arxiv.org/abs/2209.05433"
MICROSCALING = "https://arxiv.org/abs/2310.10537"


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
    """Sorts the numbers of all bit patterns of bf16 in the same way."""
    return landmarks(every_number(torch.bfloat16))


@claim(
    "precision-fp32",
    "fp32: max 3.40e38, smallest normal number 2^-126, smallest number 2^-149, next after 1 is 1 + 2^-23.",
    expected={"max": (2 - 2.0**-23) * 2.0**127, "min normal": 2.0**-126, "min": 2.0**-149, "eps": 2.0**-23},
    unit="",
)
def fp32() -> Mapping[str, float]:
    """Reads four bit patterns: the largest below inf, exponent 1, fraction 1, and that of 1 with fraction 1."""
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
        f"{name} {landmark}": number
        for name, dtype in found.items()
        for landmark, number in landmarks(every_number(dtype)).items()
        if landmark != "min"
    }


@claim(
    "precision-fp4",
    "fp4 e2m1: max {expected[max]}, smallest normal number {expected[min normal]}, smallest number {expected[min]}, "
    "next after 1 is 1 + {expected[eps]}.",
    expected={"max": 6, "min normal": 1, "min": 0.5, "eps": 0.5},
    unit="",
    source=MICROSCALING,
)
def fp4() -> Mapping[str, float]:
    """Makes the numbers of all 16 bit patterns: 2 bits of exponent with a bias of 1, and 1 bit of fraction."""
    positive = [
        fraction / 2 if exponent == 0 else (1 + fraction / 2) * 2.0 ** (exponent - 1)
        for exponent in range(4)
        for fraction in range(2)
    ]
    return landmarks(torch.tensor([sign * number for number in positive for sign in (1, -1)], dtype=torch.float64))


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
    """Adds the ones in a loop, and calls torch.sum on the same tensor."""
    ones, total = torch.ones(10_000, dtype=torch.bfloat16), torch.zeros((), dtype=torch.bfloat16)
    for one in ones:
        total = total + one
    return {"one by one": total.item(), "torch.sum": ones.sum().item()}


@claim(
    "precision-sum-of-fractions",
    "The running sum of 1 + 1/2 + 1/3 + ... changes for the last time at term {expected[bf16, last term]} in bf16, "
    "where it is {expected[bf16, sum]}, and at term {expected[fp16, last term]} in fp16, where it is "
    "{expected[fp16, sum]:.2f}. In fp32 it still changes at term 4,096, where it is {expected[fp32, sum]:.2f}.",
    expected={
        "bf16, last term": 64,
        "bf16, sum": 5.0625,
        "fp16, last term": 512,
        "fp16, sum": 7.0859375,
        "fp32, last term": 4096,
        "fp32, sum": 8.895,
    },
    tolerance=0.001,
    unit="",
)
def sum_of_fractions() -> Charted:
    """Rounds each term and each sum to the format, and keeps the sum at every power of two and halfway between."""
    marks = sorted({round(2 ** (half / 2)) for half in range(25)})
    value: dict[str, float] = {}
    lines: dict[str, list[Point]] = {}
    for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)):
        total, sums = torch.zeros((), dtype=dtype), []
        for term in (1 / torch.arange(1, 4097, dtype=torch.float64)).to(dtype):
            total = total + term
            sums.append(total.item())
        changes = [number for number, (old, new) in enumerate(zip([0.0, *sums], sums, strict=False), 1) if old != new]
        value |= {f"{name}, last term": changes[-1], f"{name}, sum": sums[-1]}
        lines[name] = [(mark, *[sums[mark - 1]] * 3) for mark in marks]
    return Charted(value, Chart("Running sum of 1/k", "terms added", "sum", lines, "x"))


@claim(
    "precision-smallest-update",
    "A weight of 0.02 moves when more than half of the spacing of its format's numbers is subtracted: more than "
    "2^-14 = {expected[bf16]:.1e} in bf16, 2^-17 = {expected[fp16]:.1e} in fp16, 2^-30 = {expected[fp32]:.1e} in fp32.",
    expected={"bf16": 2.0**-14, "fp16": 2.0**-17, "fp32": 2.0**-30},
    unit="",
)
def smallest_update() -> Mapping[str, float]:
    """Subtracts powers of two, largest first, and 1 % more than each, until neither changes the weight.

    An update of exactly half the spacing may round either way: twice the last power that fails with 1 % more.
    """
    smallest = {}
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)):
        weight = torch.tensor(0.02, dtype=dtype)
        update = 1.0
        while (weight.double() - 1.01 * update).to(dtype) != weight:
            update /= 2
        smallest[name] = 2 * update
    return smallest


@claim(
    "precision-weights-that-do-not-move",
    "After AdamW's first step 7 % of Lab 02's weights have not moved if they are bf16 and the learning rate is 1e-4, "
    "and {expected[bf16, 1e-5]:.0f} % at 1e-5; in fp32 all have.",
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
