"""Figures of the chapter on hardware and the roofline."""

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankzero.figures import style
from rankzero.figures.charts import columns, measured_chart
from rankzero.figures.figure import figure
from rankzero.figures.shapes import cells
from rankzero.ledger.hardware import HARDWARE

UPPER_LEFT: dict[str, Any] = {"xytext": (-8, 4), "ha": "right", "va": "bottom"}  # of a label, from its point
WIDTH = 4096  # of the matrices on the roofline
WORK = {  # FLOPs and bytes, as in the chapter's table
    "fused AdamW": (14, 28),
    "GELU": (10, 4),
    "square product, 256 wide": (2 * 256**3, 6 * 256**2),
    "square product, 4,096 wide": (2 * WIDTH**3, 6 * WIDTH**2),
}


def rows_of_a_layer(rows: int) -> float:
    """FLOPs per byte of `rows` rows times a bf16 matrix [4096, 4096]."""
    return 2 * rows * WIDTH**2 / (2 * (2 * rows * WIDTH + WIDTH**2))


@figure(
    "roofline-of-an-h100",
    caption="Highest rate of an operation on an H100 (bf16), by the FLOPs that it does per byte that it moves. Below "
    "[295 FLOP/B](claim:ridge-points) memory limits the rate. A layer (orange) that multiplies more rows at once "
    "moves to the right until it reaches the flat roof.",
    description="Attainable TFLOP/s over FLOPs per byte, both axes logarithmic. The roof rises in proportion up to 989 "
    "TFLOP/s at 295 FLOP/B and is flat from there. On the rising part are fused AdamW at 0.5 FLOP/B, GELU at 2.5, a "
    "square product 256 wide at 85 and a layer 4,096 wide with 1, 16, 64 and 256 rows. On the flat part are the "
    "same layer with 1,024 rows and a square product 4,096 wide.",
)
def roofline_of_an_h100() -> Figure:
    h100 = HARDWARE["h100"]
    peak, bandwidth = h100.peaks[2] / 1e12, h100.hbm / 1e12

    def roof(intensity: float) -> float:
        return min(peak, intensity * bandwidth)

    drawing, axes = style.new_figure(3.9)
    ridge = peak / bandwidth
    axes.plot([0.25, ridge, 8000], [roof(0.25), peak, peak], color=style.INK, linewidth=2.2)
    axes.plot([ridge, ridge], [0.6, peak], color=style.MUTED, linestyle=":", linewidth=1)
    axes.text(ridge * 1.08, 0.75, f"ridge: {ridge:.0f} FLOP/B", color=style.MUTED)
    axes.text(ridge * 0.92, 0.75, "memory limits", ha="right", color=style.MUTED)
    axes.text(0.07, peak, f"peak: {peak:.0f} TFLOP/s (flat part)", va="bottom", color=style.INK)
    for rows in (1, 16, 64, 256, 1024):
        x = rows_of_a_layer(rows)
        axes.plot(x, roof(x), "o", color=style.ORANGE, markersize=7)
        name = "layer 4,096 wide, 1 row" if rows == 1 else f"{rows:,} rows"
        place = {256: UPPER_LEFT, 1024: {"xytext": (0, -9), "ha": "center", "va": "top"}}.get(rows, {"xytext": (9, -3)})
        style.label_line(axes, x, roof(x), name, style.ORANGE, **place)
    for name, (flops, moved) in WORK.items():
        x = flops / moved
        axes.plot(x, roof(x), "D", color=style.BLUE, markersize=7)
        if "4,096" in name:
            style.label_line(axes, x, roof(x), name, style.BLUE, xytext=(0, 9), ha="center", va="bottom")
        else:
            style.label_line(axes, x, roof(x), name, style.BLUE, **UPPER_LEFT)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    axes.set(xlim=(0.05, 8000), ylim=(0.6, 2600))
    axes.set(xlabel="arithmetic intensity, FLOPs per byte", ylabel="attainable TFLOP/s")
    axes.grid()
    return drawing


def draw_grid(axes: Axes, x: float, y: float, colored: Callable[[int, int], bool], color: str) -> None:
    """Draws a matrix of 8 by 8 cells; `colored` says which cells, by row and column, have the color."""
    for row in range(8):
        cells(axes, x, y + row, 1.0, [color if colored(row, column) else style.PANEL for column in range(8)])


@figure(
    "tiles-of-a-product",
    caption="Numbers read (blue) for a part of the product (orange). Left: one result needs a row and a column, and "
    "uses each number of them once. Right: a tile of 4 × 4 results needs four rows and four columns, and uses each "
    "number of them four times, so the whole product reads [a quarter](claim:tiled-reads) as many numbers.",
    description="Twice three matrices of 8 by 8 cells, A times B is C. Left, one orange cell in C, a blue row in A and "
    "a blue column in B. Right, an orange tile of 4 by 4 cells in C, four blue rows in A and four blue columns in B.",
)
def tiles_of_a_product() -> Figure:
    drawing, axes = style.new_figure(2.0)
    axes.set(xlim=(-0.4, 61.4), ylim=(9.0, -2.4))
    axes.set_axis_off()
    for left, size, title in ((0, 1, "one number: 16 reads for 8 products"), (32.5, 4, "a tile: 64 reads for 128")):
        part = range(2, 3) if size == 1 else range(4)
        draw_grid(axes, left, 0, lambda row, _, part=part: row in part, style.BLUE)  # type: ignore[misc]
        draw_grid(axes, left + 10, 0, lambda _, column, part=part: column in part, style.BLUE)  # type: ignore[misc]
        draw_grid(axes, left + 20, 0, lambda row, column, part=part: row in part and column in part, style.ORANGE)  # type: ignore[misc]
        for offset, sign in ((9, "×"), (19, "=")):
            axes.text(left + offset, 4, sign, ha="center", va="center")
        axes.text(left, -0.6, title, weight="bold", va="bottom")
    return drawing


@figure(
    "int8-error",
    caption="Error of the weights of a matrix that is stored in fewer bits. int8 with one scale is [exact to 1 "
    "%](claim:int8-error), unless one row is 100 times as large as the other rows, which are then nearly lost. A scale "
    "per row protects these other rows.",
    description="Points on a logarithmic axis: bf16 0.17 percent, fp8 e4m3 2.7, int4 with one scale 19, int8 "
    "with one scale 1.06, int8 with a scale per row 0.75. With one large row: one scale 84, scale per row 0.75.",
)
def int8_error() -> Figure:
    names = {
        "bf16": "bf16",
        "fp8 e4m3": "fp8 e4m3",
        "one scale": "int8, one scale",
        "scale per row": "int8, scale per row",
        "one scale, large row": "int8, one scale, large row",
        "scale per row, large row": "int8, scale per row, large row",
        "int4, one scale": "int4, one scale",
    }
    errors = {str(name): value for name, value, *_ in measured_chart("int8-error").lines["error"]}
    drawing, axes = style.new_figure(2.7)
    places = range(len(names))
    values = [errors[name] for name in names]
    colors = [style.ORANGE if name == "one scale, large row" else style.BLUE for name in names]
    axes.hlines(places, 0.1, values, color=style.GRID)
    axes.scatter(values, places, color=colors, s=50, zorder=3)
    for place, value in zip(places, values, strict=True):
        axes.text(value * 1.2, place, f"{value:.2g} %", va="center")
    axes.set_yticks(places, list(names.values()))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.minorticks_off()
    axes.set(xlabel="error, % of the norm", xlim=(0.1, 250))
    axes.tick_params(axis="y", length=0)
    return drawing


@figure(
    "measured-roofline-of-an-h200",
    caption="bf16 products of a matrix [8192, 8192] with 1 to 4,096 columns on one H200 (2026-11-26, torch 2.11). "
    "With few columns, the products reach 60 to 90 % of the rate that the [measured "
    "bandwidth](claim:gpu-measured-roofline) of 4.26 TB/s allows. From 256 columns on they run at 660 to 680 TFLOP/s, "
    "two thirds of the data sheet's peak.",
    description="TFLOP/s over FLOPs per byte, both axes logarithmic. A gray roof from the data sheet rises with 4.8 "
    "TB/s up to 989 TFLOP/s at 206 FLOP/B. A black roof of measured limits rises with 4.26 TB/s up to 677 TFLOP/s. "
    "Nine blue points: 3.7 TFLOP/s with 1 column, 10 with 4, 56 with 16, 222 with 64, 453 with 128, and 660 to 680 "
    "from 256 columns on.",
)
def measured_roofline_of_an_h200() -> Figure:
    lines = measured_chart("gpu-measured-roofline").lines
    h200, (x, rates, _, _), (_, roof, _, _) = HARDWARE["h200"], columns(lines["measured"]), columns(lines["roof"])
    peak, bandwidth = h200.peaks[2] / 1e12, h200.hbm / 1e12
    top, measured_bandwidth = max(roof), roof[0] / x[0]
    drawing, axes = style.new_figure(3.6)
    for flat, slanted, color in ((peak, bandwidth, style.GRAY), (top, measured_bandwidth, style.INK)):
        axes.plot([0.5, flat / slanted, 4000], [0.5 * slanted, flat, flat], color=color, linewidth=1.8, zorder=1)
    axes.plot(x, rates, "o", color=style.BLUE, markersize=7)
    for count, intensity, rate in zip((1, 4, 16, 64, 128, 256), x, rates, strict=False):
        name = "1 column" if count == 1 else str(count)
        below = {"xytext": (0, -9), "ha": "center", "va": "top"} if count > 64 else {"xytext": (9, -4)}
        style.label_line(axes, intensity, rate, name, style.BLUE, **below)
    style.label_line(axes, x[-1], rates[-1], "4,096", style.BLUE, xytext=(0, -9), ha="center", va="top")
    gray = style.WORDS[style.GRAY]
    axes.text(0.55, 1.08 * peak, f"data sheet: {peak:.0f} TFLOP/s, {bandwidth:.1f} TB/s", color=gray, va="bottom")
    axes.text(0.55, 0.6 * peak, f"measured: {top:.0f} TFLOP/s, {measured_bandwidth:.2f} TB/s", va="center")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    axes.set(xlabel="FLOPs per byte", ylabel="TFLOP/s", xlim=(0.5, 4000), ylim=(1.5, 1700))
    axes.grid()
    return drawing


@figure(
    "product-rate-by-width",
    caption="Square products on one H200 (2026-11-26, torch 2.11). A product 256 wide runs at about 2 TFLOP/s [in "
    "every format](claim:gpu-matmul-rate), because its launch takes longer than its arithmetic. The rate of a product "
    "4,096 wide depends on the format: 51 TFLOP/s in fp32, 397 in TF32 (fp32 numbers, rounded before they are "
    "multiplied), 780 in bf16.",
    description="Three lines of TFLOP/s over the width of square matrices from 256 to 8,192, both axes logarithmic. "
    "All start near 2 and rise together up to 512. fp32 becomes flat at 50 from 2,048 on. TF32 reaches 345 at 2,048 "
    "and 397 at 4,096. bf16 reaches 657 at 2,048 and 780 from 4,096 on.",
)
def product_rate_by_width() -> Figure:
    lines = measured_chart("gpu-matmul-rate").lines
    drawing, axes = style.new_figure(3.2)
    for name, color in (("fp32", style.ORANGE), ("TF32", style.GREEN), ("bf16", style.BLUE)):
        x, median, low, high = columns(lines[name])
        axes.plot(x, median, "o-", color=color)
        axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        style.label_line(axes, x[-1], median[-1], name, style.WORDS.get(color, color))
    axes.set_xscale("log", base=2)
    axes.set_xticks(x, [f"{width:,.0f}" for width in x])
    axes.set_yscale("log")
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    axes.set(xlabel="width of the matrices", ylabel="TFLOP/s", ylim=(1, 1700))
    axes.grid()
    return drawing
