"""Figures of the chapter on precision."""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, draw_lines, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import box

# Largest number, smallest normal number, distance from 1 to the next number.
E2M1 = (6.0, 1.0, 0.5)
DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8 e5m2": torch.float8_e5m2,
    "fp8 e4m3": torch.float8_e4m3fn,
}


def formats() -> dict[str, tuple[float, float, float]]:
    """Returns each format's largest number, smallest normal number and eps."""
    infos = {name: torch.finfo(dtype) for name, dtype in DTYPES.items()}
    return {name: (info.max, info.smallest_normal, info.eps) for name, info in infos.items()} | {"fp4 e2m1": E2M1}


def superscript(number: int) -> str:
    """Returns the number in raised characters."""
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


@figure(
    "formats-range-and-spacing",
    caption="Six formats. Exponent bits decide how far a format reaches, fraction bits how fine it is: "
    "[bf16](claim:precision-bf16) reaches as far as fp32, [fp16](claim:precision-fp16) has eight times as many numbers "
    "as bf16 between 1 and 1.5.",
    description="Left, a bar per format on a logarithmic axis from 1e-45 to 1e38. fp32 and bf16 fill the axis. fp16 "
    "reaches from 6e-8 to 65,504, fp8 e5m2 nearly as far, fp8 e4m3 from 0.002 to 448, fp4 e2m1 from 0.5 to 6. The part "
    "below the smallest normal number is lighter. Right, a tick for each number from 1 to 1.5: solid for fp32 and "
    "fp16, 65 ticks for bf16, 3 for e5m2, 5 for e4m3, 2 for e2m1.",
)
def formats_range_and_spacing() -> Figure:
    drawing, (reach, grid) = style.new_figure(2.9, columns=2, width_ratios=(1.9, 1))
    for place, (largest, normal, eps) in enumerate(formats().values()):
        reach.barh(place, largest - normal, 0.5, left=normal, color=style.BLUE)
        reach.barh(place, normal - normal * eps, 0.5, left=normal * eps, color=style.SKY)
        if largest < 1e9:
            reach.text(largest * 4, place, f"{largest:,.0f}", va="center", fontsize=9)
        if eps < 1e-3:  # closer than a line is wide
            grid.barh(place, 0.5, 0.5, left=1, color=style.BLUE)
        else:
            numbers = [1 + step * eps for step in range(int(0.5 / eps) + 1)]
            grid.vlines(numbers, place - 0.25, place + 0.25, color=style.BLUE, linewidth=1 if eps < 0.05 else 2)
    reach.text(1e-6, -0.52, "normal", color=style.BLUE, ha="center", fontsize=9)
    reach.text(10**-41.6, -0.52, "subnormal", color=style.MUTED, ha="center", fontsize=9)
    reach.set_xscale("log")
    reach.set(xlim=(10.0**-46, 10.0**40), title="Range", xlabel="magnitude")
    powers = (-40, -30, -20, -10, 0, 10, 20, 30)
    reach.set_xticks([10.0**power for power in powers], [f"10{superscript(power)}" for power in powers])
    reach.minorticks_off()
    reach.set_yticks(range(6), formats())
    grid.set(xlim=(0.985, 1.515), title="Numbers from 1 to 1.5", xlabel="value", xticks=(1, 1.25, 1.5))
    grid.set_yticks([])
    for axes in (reach, grid):
        axes.set_ylim(5.6, -0.85)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    return drawing


def bit_fields() -> dict[str, tuple[int, int]]:
    """Returns each format's exponent bits and fraction bits: eps is 2 to the power of minus the fraction bits."""
    widths = {name: torch.finfo(dtype).bits for name, dtype in DTYPES.items()} | {"fp4 e2m1": 4}
    fractions = {name: -round(math.log2(eps)) for name, (_, _, eps) in formats().items()}
    fields = {name: (widths[name] - 1 - fraction, fraction) for name, fraction in fractions.items()}
    fp32 = fields.pop("fp32")
    return {"fp32": fp32, "TF32": (fp32[0], fields["fp16"][1]), **fields}  # the exponent of fp32, the fraction of fp16


@figure(
    "bits-of-the-formats",
    caption="The bits of seven formats: sign, exponent, fraction. fp16 and bf16 divide 16 bits differently. TF32 has "
    "bf16's exponent and fp16's fraction.",
    description="Seven rows of cells, one cell per bit, each with one sign bit. Exponent and fraction bits are 8 and "
    "23 for fp32, 8 and 10 for TF32, 8 and 7 for bf16, 5 and 10 for fp16, 5 and 2 for fp8 e5m2, 4 and 3 for fp8 e4m3, "
    "2 and 1 for fp4 e2m1.",
)
def bits_of_the_formats() -> Figure:
    drawing, axes = style.new_figure(2.35, width=style.NARROW)
    style.blank(axes, 360, 169)
    left, size = 64, 7.6
    for name, x, color in (("sign", left, style.MUTED), ("exponent", 96, style.BLUE), ("fraction", 190, style.ORANGE)):
        axes.text(x, 6, name, color=color, va="center", fontsize=11)
    for row, (name, (exponent, fraction)) in enumerate(bit_fields().items()):
        y = 17 + 22 * row
        axes.text(0, y + 7, name, va="center", fontsize=11)
        colors = [style.GRAY] + [style.BLUE] * exponent + [style.ORANGE] * fraction
        for bit, color in enumerate(colors):
            box(axes, left + bit * size, y, size, 14, color=color, edge=style.PAPER)
        axes.text(360, y + 7, f"1, {exponent}, {fraction}", va="center", ha="right", fontsize=11)
    return drawing


@figure(
    "running-sums",
    caption="The sum 1 + 1/2 + 1/3 + … added term by term. In bf16 the sum stops at "
    "[5.06 after 64 terms](claim:precision-sum-of-fractions), in fp16 at "
    "[7.09 after 512](claim:precision-sum-of-fractions), because each further term is below half of the spacing.",
    description="Three lines of the running sum over the number of terms, from 1 to 4,096 on a logarithmic axis. All "
    "rise together. The bf16 line becomes flat at 5.06 after 64 terms, the fp16 line at 7.09 after 512 terms. The fp32 "
    "line goes on rising to 8.9.",
)
def running_sums() -> Figure:
    drawing, axes = style.new_figure(2.9)
    draw_lines(axes, measured_chart("precision-sum-of-fractions"), colors={"fp32": style.BLUE, "fp16": style.ORANGE})
    axes.set_xticks([1, 4, 16, 64, 256, 1024, 4096])
    axes.set(ylabel="running sum of 1/k")
    return drawing


def draw_gradients(axes: Axes, scale: int) -> None:
    """Draws the histogram of Lab 03's gradients times 2^scale over fp16's range."""
    _, line = next(iter(measured_chart("precision-below-the-normal-numbers").lines.items()))
    powers, shares = [float(point[0]) + scale for point in line], [point[1] for point in line]
    colors = [style.ORANGE if power < -14 else style.BLUE for power in powers]
    axes.bar(powers, shares, 0.9, align="edge", color=colors)
    axes.axvspan(-24, -14, color=style.ORANGE, alpha=0.1, linewidth=0)
    axes.axvspan(-14, 16, color=style.BLUE, alpha=0.08, linewidth=0)
    axes.set(xlim=(-34, 22), ylim=(0, 21), ylabel="% of gradients")


@figure(
    "gradients-and-the-loss-scale",
    caption="Gradients of Lab 03's first batch. Without a scale, "
    "[17 %](claim:precision-below-the-normal-numbers) are below fp16's smallest normal number, 2⁻¹⁴, and lose digits. "
    "A loss scale of 2¹⁶ moves nearly all of them into the normal range, and the largest stay far below 65,504.",
    description="Two histograms of gradients by power of two over fp16's range: 0 below 2 to the power -24, subnormal "
    "up to -14, normal up to 16, inf above. Above, without a scale: the histogram peaks near 2 to the power -9, with "
    "a tail through the subnormal range. Below, with a scale of 2 to the 16: the same histogram 16 powers to the "
    "right, nearly all of it in the normal range.",
)
def gradients_and_the_loss_scale() -> Figure:
    drawing, (plain, scaled) = style.new_figure(3.9, rows=2, sharex=True)
    for axes, scale, title in ((plain, 0, "Gradients"), (scaled, 16, "Gradients × 65,536")):
        draw_gradients(axes, scale)
        axes.set_title(title)
        for middle, text, color in (
            (-29, "becomes 0", style.MUTED),
            (-19, "subnormal", style.ORANGE),
            (4 if scale == 0 else -9, "normal", style.BLUE),
            (19, "inf", style.MUTED),
        ):
            axes.text(middle, 20, text, color=color, ha="center", va="top")
    powers = (-32, -24, -14, -8, 0, 8, 16)
    scaled.set_xticks(powers, [f"2{superscript(power)}" for power in powers])
    scaled.set_xlabel("magnitude")
    return drawing


@figure(
    "speed-up-by-width",
    caption="Training step of a GPT with 4 layers on 8 × 512 tokens, fused AdamW, on one H200 (2026-11-26, torch "
    "2.11). At 128 and 256 wide neither TF32 nor autocast gains anything: launches probably take the time. "
    "At [2,048 wide](claim:gpu-amp-by-width) autocast to bf16 is 8.1 times as fast as fp32.",
    description="Two lines with their spread over the width of the model from 128 to 2,048; a dashed line marks 1, the "
    "fp32 step. At 128 and 256 both lines are near 1. At 512 both are near 1.9. At 1,024 TF32 is 3.3 and bf16 autocast "
    "5.5; at 2,048 they are 4.2 and 8.1.",
)
def speed_up_by_width() -> Figure:
    chart = measured_chart("gpu-amp-by-width")
    drawing, axes = style.new_figure(3.0)
    axes.axhline(1, color=style.MUTED, linestyle="--", linewidth=1)
    axes.text(1500, 0.9, "fp32", color=style.MUTED, va="top", ha="center")
    for name, color in (("TF32", style.GREEN), ("bf16 autocast", style.BLUE)):
        x, median, low, high = columns(chart.lines[name])
        axes.plot(x, median, "o-", color=color)
        axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        style.label_line(axes, x[-1], median[-1], name, style.WORDS.get(color, color))
    axes.set_xscale("log", base=2)
    axes.set_xticks(x, [f"{width:,.0f}" for width in x])
    axes.minorticks_off()
    axes.set(xlabel="width of the model", ylabel="times as fast as fp32", ylim=(0, 9))
    axes.grid(axis="y")
    return drawing
