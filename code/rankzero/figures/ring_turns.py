"""Turns of a ring: the two halves of an all-reduce, simulated turn by turn and drawn as a strip of tables."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from rankzero.figures import style
from rankzero.figures.shapes import box

Cell = frozenset[int]  # the ranks whose numbers are in the sum; empty if the part is not held
State = list[list[Cell]]  # by rank, then by part

TABLE, GAP, FIRST, CELL, TOP = 90.0, 15.0, 45.0, 30.0, 30.0  # of a strip, in points


def reduce_scatter_turns(ranks: int) -> list[State]:
    """Returns the state before a ring reduce-scatter and after each turn; at the end rank r holds the sum of part r.

    In each turn every rank sends one part to its right neighbor, which adds its own numbers.
    """
    states = [[[frozenset({rank}) for _ in range(ranks)] for rank in range(ranks)]]
    for turn in range(1, ranks):
        following = [list(parts) for parts in states[-1]]
        for rank in range(ranks):
            part = (rank - turn) % ranks
            following[(rank + 1) % ranks][part] = states[-1][rank][part] | states[-1][(rank + 1) % ranks][part]
            following[rank][part] = frozenset()  # sent, and not needed any more
        states.append(following)
    return states


def all_gather_turns(ranks: int) -> list[State]:
    """Returns the state before a ring all-gather, when rank r holds part r alone, and after each turn."""
    states = [[[frozenset({part}) if part == rank else frozenset() for part in range(ranks)] for rank in range(ranks)]]
    for turn in range(1, ranks):
        following = [list(parts) for parts in states[-1]]
        for rank in range(ranks):
            part = (rank - turn + 1) % ranks
            following[(rank + 1) % ranks][part] = states[-1][rank][part]
        states.append(following)
    return states


def arrived_part(states: Sequence[State], turn: int, rank: int) -> int | None:
    """Returns the part that a rank has received in a turn, or None before the first turn."""
    if turn == 0:
        return None
    now, before = states[turn][rank], states[turn - 1][rank]
    return next(part for part in range(len(now)) if now[part] - before[part])


def draw_turns(
    axes: Axes, top: float, states: Sequence[State], name: str, look: Callable[[int, Cell], tuple[str, str]]
) -> None:
    """Draws a strip of tables, one row per rank and one column per part, `top` points below the axes' upper edge.

    `look` returns the text and the color of a cell, by part and by the ranks whose numbers it sums. A thick frame
    marks the part that has just arrived.
    """
    ranks = len(states)
    axes.text(0, top + 6, name, fontweight="bold", fontsize=11.5, va="center")
    for turn, state in enumerate(states):
        left = FIRST + turn * (TABLE + GAP)
        title = f"turn {turn}" if turn else "before"
        axes.text(left + TABLE / 2, top + TOP - 2, title, ha="center", va="bottom", fontsize=11, color=style.MUTED)
        for rank, parts in enumerate(state):
            y = top + TOP + rank * 25
            if turn == 0:
                axes.text(0, y + 11, f"rank {rank}", va="center", fontsize=11)
            for part, summed in enumerate(parts):
                text, color = look(part, summed) if summed else ("", style.PAPER)
                box(axes, left + part * CELL, y, CELL - 2, 22, text, color=color, edge=style.GRID, size=11)
            if (arrived := arrived_part(states, turn, rank)) is not None:
                box(axes, left + arrived * CELL, y, CELL - 2, 22, color="none", edge=style.INK, line=2)
        sent = f"sent {turn}/{ranks}" if turn else "sent: 0"
        axes.text(left + TABLE / 2, top + TOP + ranks * 25 + 9, sent, ha="center", va="center", fontsize=11)
