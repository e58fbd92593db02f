"""Claims of handbook/hardware-and-roofline.md: reads of a tiled product, int8, and the answers of the problems."""

from collections.abc import Mapping

import torch
from torch import Tensor

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.ledger.hardware import HARDWARE


def reads_of_a_tiled_product(width: int, tile: int) -> int:
    """Counts the numbers that a product of two square matrices reads, tile by tile; each tile pair is read once."""
    starts, reads = range(0, width, tile), 0
    for _row in starts:
        for _column in starts:
            for _inner in starts:
                reads += 2 * tile * tile
    return reads


@claim(
    "tiled-reads",
    "A product of matrices 256 wide reads {expected[tile 1]:,} numbers one by one; with tiles of 16 it reads a "
    "sixteenth of them.",
    expected={"tile 1": 2 * 256**3, "tile 4": 2 * 256**3 / 4, "tile 16": 2 * 256**3 / 16, "tile 64": 2 * 256**3 / 64},
    unit="numbers read",
)
def tiled_reads() -> Mapping[str, int]:
    """Runs the loops over tiles and adds up what each iteration reads."""
    return {f"tile {tile}": reads_of_a_tiled_product(256, tile) for tile in (1, 4, 16, 64)}


def quantized(x: Tensor, scale: Tensor, bits: int = 8) -> Tensor:
    """Rounds x to integers of that many bits, symmetric around 0, and multiplies them by the scale again."""
    largest = 2 ** (bits - 1) - 1
    return (x / scale).round().clamp(-largest, largest) * scale


def relative_error(x: Tensor, exact: Tensor) -> float:
    return float((x - exact).norm() / exact.norm())


@claim(
    "int8-error",
    "Normally distributed weights in int8 with one scale differ from fp32 by {expected[one scale]} %. If one row is "
    "100 times as large, the other rows differ by {expected[one scale, large row]} %; with a scale per row, by "
    "{expected[scale per row, large row]} %.",
    expected={
        "one scale": 1.06,
        "scale per row": 0.75,
        "one scale, large row": 84,
        "scale per row, large row": 0.75,
        "bf16": 0.17,
        "fp8 e4m3": 2.66,
        "int4, one scale": 19,
    },
    unit="%",
    tolerance=0.5,
)
def int8_error() -> Charted:
    """Quantizes a matrix [512, 512]; the error is the norm of the difference over the norm, without the large row."""
    torch.manual_seed(0)
    weight = torch.randn(512, 512)
    large = weight.clone()
    large[0] *= 100
    errors = {"bf16": relative_error(weight.bfloat16().float(), weight)}
    errors["fp8 e4m3"] = relative_error(weight.to(torch.float8_e4m3fn).float(), weight)
    errors["int4, one scale"] = relative_error(quantized(weight, weight.abs().max() / 7, bits=4), weight)
    for suffix, matrix in {"": weight, ", large row": large}.items():
        scales = {"one scale": matrix.abs().max() / 127, "scale per row": matrix.abs().amax(1, keepdim=True) / 127}
        for name, scale in scales.items():
            errors[name + suffix] = relative_error(quantized(matrix, scale)[1:], matrix[1:])
    percent = {name: 100 * error for name, error in errors.items()}
    bars: list[Point] = [(name, value, value, value) for name, value in percent.items()]
    return Charted(percent, Chart("Error of a matrix in fewer bits", "", "% of its norm", {"error": bars}))


@claim(
    "hardware-problem-answers",
    "On an H100 a product of square matrices reaches the ridge from {expected[width in bf16]:.0f} numbers on, in bf16 "
    "and in fp8. A layer 4,096 wide reaches the ridge with {expected[rows on an H100]:.0f} rows on an H100 and with "
    "{expected[rows on an H200]:.0f} on an H200.",
    expected={"width in bf16": 886, "width in fp8": 886, "rows on an H100": 345, "rows on an H200": 229},
    unit="as named",
)
def problem_answers() -> Mapping[str, int]:
    """Computes the answers from the data sheets."""
    h100, width = HARDWARE["h100"], 4096
    ridges = {name: HARDWARE[name].peaks[2] / HARDWARE[name].hbm for name in ("h100", "h200")}
    rows = {name: round(ridge * width / (width - 2 * ridge)) for name, ridge in ridges.items()}
    return {
        "width in bf16": round(3 * ridges["h100"]),
        "width in fp8": round(3 / 2 * 2 * h100.peaks[2] / h100.hbm),
        "rows on an H100": rows["h100"],
        "rows on an H200": rows["h200"],
    }
