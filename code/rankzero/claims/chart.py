"""Charts: what a claim measured point by point, kept beside its value, from which a figure is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rankzero.claims.claim import Value

# x, then the median, the lowest and the highest value of y. An x that is a text makes a bar instead of a point.
Point = tuple[float | str, float, float, float]


@dataclass(frozen=True)
class Chart:
    """Lines of points. `x` and `y` are the axes' labels, with units; `log` names the axes with a logarithmic scale."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[Point]]
    log: str = ""  # "", "x", "y" or "xy"

    def as_json(self) -> dict[str, Any]:
        """Returns the chart as values that JSON can hold; numbers have six digits."""
        fields = asdict(self)
        fields["lines"] = {
            name: [[_short(part) for part in point] for point in self.lines[name]] for name in self.lines
        }
        return fields


@dataclass(frozen=True)
class Charted:
    """The value of a claim, and the chart of the measurements from which it follows."""

    value: Value
    chart: Chart


def _short(part: float | str) -> float | str:
    return part if isinstance(part, str) else float(f"{part:.6g}")
