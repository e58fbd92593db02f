"""Memory ledger: the bytes that one rank holds, row by row, predicted or measured.

A row has a kind of memory and the phases of a step in which it is held. Rows of different kinds do not add, and bytes
are whole and never negative, so that a wrong formula fails here and not on the cluster.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class LedgerError(ValueError):
    """An impossible row or sum: a fraction of a byte, or two kinds of memory in one sum."""


class Kind(StrEnum):
    """The use of memory."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    ACTIVATIONS = "activations"
    TEMPORARY = "temporary"
    COMMUNICATION = "communication"
    KV_CACHE = "KV cache"


# Moments of a training step, from the second step on. The peak is one of them.
PHASES = ("forward ends", "backward begins", "backward ends", "update")
FORWARD, BEGIN, END, UPDATE = PHASES
PRESENT = {
    Kind.WEIGHTS: PHASES,
    Kind.GRADIENTS: (END, UPDATE),
    Kind.OPTIMIZER: PHASES,
    Kind.ACTIVATIONS: (FORWARD, BEGIN),
    Kind.TEMPORARY: (BEGIN,),
    Kind.COMMUNICATION: (END,),
    Kind.KV_CACHE: (),  # of generation, not of training
}


@dataclass(frozen=True)
class Row:
    """Bytes of one kind. `formula` gives the source of the number in words or symbols."""

    kind: Kind
    name: str
    bytes: int
    formula: str = ""
    phases: tuple[str, ...] | None = None  # None: the phases of the kind in PRESENT

    def __post_init__(self) -> None:
        if type(self.bytes) is not int or self.bytes < 0:
            raise LedgerError(f"{self.kind}, {self.name}: {self.bytes!r} is not a whole number of bytes.")
        if self.phases is None:
            object.__setattr__(self, "phases", PRESENT[self.kind])
        elif unknown := set(self.phases) - set(PHASES):
            raise LedgerError(f"{self.kind}, {self.name}: {unknown} are no phases of a step.")

    def __add__(self, other: "Row") -> "Row":
        if (self.kind, self.name, self.phases) != (other.kind, other.name, other.phases):
            raise LedgerError(f"{self.kind}, {self.name} does not add to {other.kind}, {other.name}.")
        return Row(self.kind, self.name, self.bytes + other.bytes, self.formula, self.phases)

    def __mul__(self, times: int) -> "Row":
        return Row(self.kind, self.name, self.bytes * times, self.formula, self.phases)

    def __lt__(self, other: "Row") -> bool:
        if self.kind != other.kind:
            raise LedgerError(f"{self.kind} and {other.kind} are not compared row by row: compare totals.")
        return self.bytes < other.bytes


@dataclass(frozen=True)
class Ledger:
    """All memory that one rank holds."""

    title: str
    rows: tuple[Row, ...]

    def __add__(self, other: "Ledger") -> "Ledger":
        """Returns the sum of two ledgers; rows of the same kind and name become one row."""
        merged: dict[tuple[Kind, str], Row] = {}
        for row in (*self.rows, *other.rows):
            key = row.kind, row.name
            merged[key] = merged[key] + row if key in merged else row
        return Ledger(self.title, tuple(merged.values()))

    def total(self, *kinds: Kind) -> int:
        """Returns the bytes of the given kinds; without arguments, of every kind that training holds."""
        summed_kinds = kinds or tuple(kind for kind in Kind if kind is not Kind.KV_CACHE)
        return sum(row.bytes for row in self.rows if row.kind in summed_kinds)

    def at(self, phase: str) -> dict[Kind, int]:
        """Returns the bytes by kind at a moment of a step, one of PHASES."""
        if phase not in PHASES:
            raise LedgerError(f"{phase!r} is no phase of a step: use one of {', '.join(PHASES)}.")
        return {
            kind: sum(row.bytes for row in self.rows if row.kind is kind and phase in (row.phases or ()))
            for kind in Kind
        }

    def peak(self) -> tuple[str, int]:
        """Returns the moment of a step with the most bytes, and those bytes."""
        totals = {phase: sum(self.at(phase).values()) for phase in PHASES}
        phase = max(totals, key=lambda name: totals[name])
        return phase, totals[phase]

    def as_json(self) -> dict[str, Any]:
        """Returns plain data: the rows, the totals by kind, and the moments of a step."""
        return {
            "title": self.title,
            "rows": [
                {"kind": row.kind.value, "name": row.name, "bytes": row.bytes, "formula": row.formula}
                for row in self.rows
            ],
            "totals": {kind.value: self.total(kind) for kind in Kind},
            "phases": {phase: {kind.value: size for kind, size in self.at(phase).items()} for phase in PHASES},
        }

    def table(self) -> str:
        """Returns the rows as text, 80 columns wide: kind, name, formula, bytes."""
        lines = [self.title] if self.title else []
        for kind in Kind:
            of_kind = [row for row in self.rows if row.kind is kind]
            if of_kind:
                name = f"{kind} (of generation, not of training)" if kind is Kind.KV_CACHE else kind.value
                lines.append(f"{name:<46}{human(self.total(kind)):>10}{self.total(kind):>22,} B")
            lines += [f"  {row.name:<31}{row.formula:<25}{row.bytes:>20,} B" for row in of_kind]
        return "\n".join(lines)

    __str__ = table


@dataclass(frozen=True)
class Line:
    """Bytes of one kind, predicted and measured."""

    kind: Kind
    predicted: int
    measured: int

    @property
    def difference(self) -> int:
        """Measured minus predicted, in bytes."""
        return self.measured - self.predicted


def compare(predicted: Ledger, measured: Ledger) -> list[Line]:
    """Returns a line for each kind in either ledger."""
    kinds = {row.kind for row in (*predicted.rows, *measured.rows)}
    return [Line(kind, predicted.total(kind), measured.total(kind)) for kind in Kind if kind in kinds]


def comparison_table(lines: Iterable[Line], names: tuple[str, str] = ("predicted", "measured")) -> str:
    """Returns the lines as text."""
    head = f"{'bytes':<17}{names[0]:>20}{names[1]:>20}{'difference':>16}"
    body = [f"{line.kind:<17}{line.predicted:>20,}{line.measured:>20,}{line.difference:>+16,}" for line in lines]
    return "\n".join([head, *body])


def human(size: int) -> str:
    """Returns bytes as text in a fitting decimal unit, as in papers and data sheets: 1 GB = 10^9 bytes."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:,.2f} {unit}"
    return f"{size} B"
