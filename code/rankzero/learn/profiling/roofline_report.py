"""Roofline report: rates by size and operations with their limits, as text of at most 80 columns."""

from collections.abc import Mapping, Sequence
from typing import Any


def rates_table(title: str, columns: Mapping[str, Mapping[int, float]]) -> str:
    """Returns rates by size, a column per name, in units of 10^9."""
    sizes = sorted({size for column in columns.values() for size in column})
    lines = [f"{title:<16}" + "".join(f"{name:>10}" for name in columns)]
    for size in sizes:
        cells = (f"{column[size] / 1e9:>10.2f}" if size in column else f"{'-':>10}" for column in columns.values())
        lines.append(f"{size:>12,}    " + "".join(cells))
    return "\n".join(lines)


def operations_table(rows: Sequence[Mapping[str, Any]], peak: float) -> str:
    """Returns a row per operation with its cost, rate, share of its roof and limit, then a sentence about each."""
    lines = ["operation          MFLOP        MB    FLOP/B   GFLOP/s   of roof  limit"]
    for row in rows:
        cost = f"{row['name']:<14}{row['flops'] / 1e6:>10.3f}{row['bytes'] / 1e6:>10.3f}{row['intensity']:>10.2f}"
        lines.append(f"{cost}{row['rate'] / 1e9:>10.2f}{row['share']:>10.0%}  {row['limit']}")
    return "\n".join([*lines, "", *(limit_sentence(row, peak) for row in rows)])


def limit_sentence(row: Mapping[str, Any], peak: float) -> str:
    """Returns a sentence on the resource that limits an operation."""
    ridge = peak / row["bandwidth"]
    if row["limit"] == "the call":
        return f"{row['name']}: the call limits it, longer than its FLOPs and its bytes take."
    side, limit = ("above", "arithmetic") if row["limit"] == "arithmetic" else ("below", "memory")
    return f"{row['name']}: {limit} limits it: {row['intensity']:.2g} FLOP/B, {side} the ridge of {ridge:.2g}."
