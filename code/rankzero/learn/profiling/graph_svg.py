"""Drawing of a computation graph as SVG: a box per tensor, operands on the left, with a line to each result."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

BOX, GAP, EDGE = (124, 46), (40, 18), 12  # width and height of a box, the space between boxes, the margin
STYLE = (
    "svg{background:#fff}text{font:13px sans-serif;text-anchor:middle;fill:#222}path{fill:none;stroke:#777}"
    "rect{fill:#e8effa;stroke:#3b6fb6}.leaf{fill:#fbeee6;stroke:#d1622b}@media(prefers-color-scheme:dark)"
    "{svg{background:#111}text{fill:#eee}rect{fill:#1d2b40}.leaf{fill:#40261a}}"
)


def graph_svg(nodes: Iterable[Any], text: Callable[[Any], Sequence[str]]) -> str:
    """Returns the graph as the text of an SVG file, which reads on a light and on a dark page.

    `nodes` have `parents`, and each stands after its parents; `text` returns the two lines in a node's box. Nodes
    without parents, which are inputs, have another color. A line that passes a column has a place of its own in it.
    """
    nodes = list(nodes)
    column = _columns(nodes)
    row = _rows(nodes, column)
    lines, boxes = [], []
    for node in nodes:
        x, y = _corner(column[node], row[node, column[node]])
        for parent in dict.fromkeys(node.parents):
            path = [_corner(place, row[parent, place]) for place in range(column[parent], column[node])] + [(x, y)]
            lines.append(_line(path))
        kind = "" if node.parents else ' class="leaf"'
        boxes.append(f'<rect{kind} x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="6"/>')
        for line, below in zip(text(node), (20, 37), strict=True):
            boxes.append(f'<text x="{x + BOX[0] // 2}" y="{y + below}">{escape(line)}</text>')
    width, height = (
        side - gap + EDGE
        for side, gap in zip(_corner(1 + max(column.values()), 1 + max(row.values())), GAP, strict=True)
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *lines, *boxes, "</svg>", ""])


def _columns(nodes: Sequence[Any]) -> dict[Any, int]:
    """Returns the column of each node: as far right as its users let it be."""
    from_the_right: dict[Any, int] = {}
    for node in reversed(nodes):
        from_the_right.setdefault(node, 0)
        for parent in node.parents:
            from_the_right[parent] = max(from_the_right.get(parent, 0), from_the_right[node] + 1)
    last = max(from_the_right.values())
    return {node: last - from_the_right[node] for node in nodes}


def _rows(nodes: Sequence[Any], column: Mapping[Any, int]) -> dict[tuple[Any, int], int]:
    """Returns the row of each node in its column, and of its line in the columns that the line passes.

    Whatever a column holds is ordered by the mean row of its parents; inputs come last.
    """
    end = {node: column[node] for node in nodes}  # the last column in which a node or its line has a place
    for node in nodes:
        for parent in node.parents:
            end[parent] = max(end[parent], column[node] - 1)
    row: dict[tuple[Any, int], int] = {}
    for place in range(1 + max(column.values())):
        here = [node for node in nodes if column[node] <= place <= end[node]]
        heights = {node: _height(node, place, column, row) for node in here}
        row |= {(node, place): number for number, node in enumerate(sorted(here, key=heights.__getitem__))}
    return row


def _height(node: Any, place: int, column: Mapping[Any, int], row: Mapping[tuple[Any, int], int]) -> float:
    """Returns the mean row of a node's parents, or the row of its line, in the column before `place`."""
    before = node.parents if column[node] == place else (node,)
    return sum(row[parent, place - 1] for parent in before) / len(before) if before else float("inf")


def _corner(column: int, row: int) -> tuple[int, int]:
    """Returns the upper left corner of a box."""
    return EDGE + column * (BOX[0] + GAP[0]), EDGE + row * (BOX[1] + GAP[1])


def _line(corners: Sequence[tuple[int, int]]) -> str:
    """Returns the path from the right side of the first box to the left side of the last one, through the others."""
    half, bend = BOX[1] // 2, GAP[0] // 2
    steps: list[str] = []
    for (left, top), (right, bottom) in itertools.pairwise(corners):
        start, y, other = left + BOX[0], top + half, bottom + half
        steps.append(f"{'L' if steps else 'M'}{start} {y}C{start + bend} {y} {right - bend} {other} {right} {other}")
    return f'<path d="{"".join(steps)}"/>'
