"""Plots of a measured machine: products by size, its roofline with operations on it, and one product in four ways."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

TRAIN, OTHER, THIRD = "#3b6fb6", "#c2541d", "#3f7d33"
LIMITS = {"memory": TRAIN, "arithmetic": OTHER, "the call": THIRD}  # colors of operations, by what limits them
COLORS = (TRAIN, OTHER, THIRD, "#8c6bb1", "#b8860b")
BELOW: dict[str, Any] = {"fontsize": 9, "loc": "upper center", "bbox_to_anchor": (0.5, -0.11), "frameon": False}
ABOVE = 1.1  # share of its roof from which an operation cannot be explained by the spread of good timings
IN_WORDS = {"32 wide": "matrix product 32 × 32", "one row": "matrix product of one row"}


def plot_roofline(
    products: Mapping[int, float],
    peak: float,
    memory: float,
    cache: float,
    call_seconds: float,
    operations: Sequence[Mapping[str, Any]],
) -> Figure:
    """Draws why a small product is slow, and beside it the operations of a training step under the machine's roofs.

    `products` are FLOP/s of square products by width; `peak` in FLOP/s, `memory` and `cache` in bytes/s; an operation
    has `name`, `intensity`, `rate`, `limit`, and `share`, the part of its roof that it reaches.
    """
    figure = Figure(figsize=(14, 6.2), layout="constrained")
    times, roofs = figure.subplots(1, 2)
    shown = [operation for operation in operations if operation["intensity"]]
    _draw_times(times, products, call_seconds)
    _draw_roofs(roofs, shown, peak, memory, cache)
    for axes in (times, roofs):
        axes.title.set_fontsize(10)
        _plain(axes)
    figure.draw_without_rendering()
    _name_operations(roofs, shown)
    return figure


def _draw_times(axes: Axes, products: Mapping[int, float], call_seconds: float) -> None:
    """Draws the time of a square product by width, with the fixed time of a call and the time of the arithmetic."""
    call, best, widths = call_seconds * 1e6, max(products.values()), sorted(products)
    taken = {width: 2e6 * width**3 / products[width] for width in widths}
    work = {width: 2e6 * width**3 / best for width in widths}
    small = widths[0]
    axes.plot(widths, list(taken.values()), "o-", color=TRAIN, label="measured time of a product")
    axes.axhline(call, color=THIRD, ls="--", label=f"fixed time of a call without work, {call:.3g} µs")
    axes.plot(widths, list(work.values()), ls="--", color=OTHER, label="time of the arithmetic, at the highest rate")
    needs = f"its arithmetic needs {work[small]:.2g} µs"
    title = [f"A product of {small} × {small} numbers takes {taken[small]:.3g} µs; {needs}."]
    crossing = (call_seconds * best / 2) ** (1 / 3)
    if small < crossing < widths[-1]:
        axes.axvspan(small, crossing, color=THIRD, alpha=0.12, lw=0)
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 10}
        axes.annotate("the call takes longer", (crossing, 0.94), (-6, 0), ha="right", color=THIRD, **place)
        axes.annotate("the arithmetic takes longer", (crossing, 0.94), (6, 0), ha="left", color=OTHER, **place)
        title.insert(0, "Why is a small matrix product slow? Its call takes longer than its arithmetic.")
        title.append("A call is the work of Python and the library before the first FLOP: the same for each size.")
    if min(taken[width] for width in widths) < 0.9 * call:
        title.append("A product took less time than a call without work: other programs disturbed these times.")
    axes.set_title("\n".join(title))
    axes.set(xscale="log", yscale="log", xlabel="width n of a product of n × n numbers", ylabel="µs per product")
    _name_widths(axes, widths)
    axes.legend(**BELOW)


def _draw_roofs(axes: Axes, operations: Sequence[Mapping[str, Any]], peak: float, memory: float, cache: float) -> None:
    """Draws the roofs of memory and of the fastest cache with their ridges, and each operation in its limit's color."""
    low = min(operation["intensity"] for operation in operations) / 3
    high = max(*(operation["intensity"] for operation in operations), peak / memory) * 4
    for name, bandwidth, style in (("memory", memory, "-"), ("cache", max(cache, memory), "--")):
        ridge = peak / bandwidth
        label = f"roof of {name}: {bandwidth / 1e9:,.0f} GB/s, ridge at {ridge:.2g} FLOP/B"
        heights = [low * bandwidth / 1e9, peak / 1e9, peak / 1e9]
        axes.plot([low, ridge, high], heights, style, color="black", lw=1.6, label=label)
    place: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9}
    axes.annotate(f"peak: {peak / 1e9:,.0f} GFLOP/s", (high, peak / 1e9), (0, 4), ha="right", **place)
    for operation in operations:
        axes.plot(operation["intensity"], operation["rate"] / 1e9, "o", color=LIMITS[operation["limit"]], markersize=6)
    longest = {"memory": "its bytes take", "arithmetic": "its FLOPs take", "the call": "its call takes"}
    for limit, color in LIMITS.items():
        axes.plot([], [], "o", color=color, label=f"an operation limited by {limit}: {longest[limit]} longest")
    axes.legend(**BELOW)
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.set(xlabel="arithmetic intensity: FLOPs per byte that the operation moves", ylabel="GFLOP/s")
    title = ["What limits an operation of a training step? Bytes (blue), FLOPs (orange) or the call (green)."]
    title.append("A green operation has too little work: its call takes longest, so its rate is far below its roof.")
    if above := [operation["name"] for operation in operations if operation["share"] > ABOVE]:
        title.append(f"{', '.join(above)}: above the roof, so this run measured the roof too low.")
    axes.set_title("\n".join(title))


def _name_operations(axes: Axes, operations: Sequence[Mapping[str, Any]]) -> None:
    """Writes each operation's name beside its point, over no other name or point. The layout must be final."""
    centers = axes.transData.transform([(operation["intensity"], operation["rate"] / 1e9) for operation in operations])
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in centers]  # pixels
    places = [(side, step) for step in (0, -1, 1, -2, 2, -3, 3) for side in ("left", "right")]  # of a name to its point
    for operation in sorted(operations, key=lambda operation: operation["rate"], reverse=True):
        point = (operation["intensity"], operation["rate"] / 1e9)
        for side, step in places:
            offset = (6 if side == "left" else -6, 11 * step - 3)
            name = IN_WORDS.get(operation["name"], operation["name"])
            words = axes.annotate(name, point, offset, ha=side, textcoords="offset points", fontsize=9)
            area = words.get_window_extent()
            if axes.bbox.contains(area.x0, area.y0) and axes.bbox.x1 > area.x1 and not area.count_overlaps(taken):
                break
            words.remove()
        else:
            continue  # no place for its name
        taken.append(area)
        outline = [withStroke(linewidth=3, foreground="white")]
        words.set(color=LIMITS[operation["limit"]], path_effects=outline)


def plot_rates(
    products: Mapping[str, Mapping[int, float]],
    copies: Mapping[int, float],
    four_ways: Mapping[str, float],
    call_seconds: float,
) -> Figure:
    """Draws GFLOP/s of square products by width, GB/s of copies by bytes, and the rates of one product in four ways.

    The dotted line of the first plot is the rate that the fixed time of a call allows: narrow products lie on it.
    """
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    rate, copy, ways = figure.subplots(1, 3)
    for (name, line), color in zip(products.items(), COLORS, strict=False):
        rate.plot(line.keys(), [value / 1e9 for value in line.values()], "o-", color=color, markersize=3, label=name)
    widths = sorted({width for line in products.values() for width in line})
    top = max(value for line in products.values() for value in line.values()) / 1e9
    allowed = [(width, 2 * width**3 / call_seconds / 1e9) for width in widths]
    below = [pair for pair in allowed if pair[1] < 2 * top]
    rate.plot(*zip(*below, strict=True), ":", color="black", label=f"all time in the call, {call_seconds * 1e6:.1f} µs")
    rate.set(xscale="log", yscale="log", xlabel="width of a square product", ylabel="GFLOP/s")
    _name_widths(rate, widths)
    rate.set_title("Narrow products are slow: the call costs more than the work")
    rate.legend(frameon=False, fontsize=8)
    copy.plot(copies.keys(), [value / 1e9 for value in copies.values()], "o-", color=TRAIN, markersize=3)
    copy.set(xscale="log", xlabel="bytes read and written", ylabel="GB/s", ylim=(0, None))
    copy.set_title("Copies: the call, then caches, then memory")
    ways.barh(list(four_ways), [value / 1e9 for value in four_ways.values()], color=TRAIN)
    ways.invert_yaxis()
    ways.set(xscale="log", xlabel="GFLOP/s")
    ways.set_title("One product, four ways")
    for axes in (rate, copy, ways):
        axes.title.set_fontsize(9.5)
        _plain(axes)
    return figure


def _name_widths(axes: Axes, widths: Sequence[int]) -> None:
    """Puts a tick at each width that was measured."""
    axes.set_xticks(widths, [f"{width:,}" for width in widths])
    axes.set_xticks([], minor=True)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
