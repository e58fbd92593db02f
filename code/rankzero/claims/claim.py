"""Claim: a statement with a number, and the function that measures the number."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankzero.claims.digest import digest
from rankzero.curriculum import ROOT
from rankzero.errors import UserError

# One number; yes or no; or several numbers with names, such as the cells of a table.
Value = bool | int | float | Mapping[str, float]

# A number that a statement takes from `expected`: {expected}, {expected:.2f}, {expected[fp32]}, {expected[fp32]:.2f}.
PLACE = re.compile(r"\{expected(?:\[([^{}]*)\])?(?::([^{}]*))?\}")


@dataclass(frozen=True)
class Claim:
    """`measure` gives a Value of the same form as `expected`; each number may be off by `tolerance`, in `unit`."""

    slug: str
    statement: str
    page: str  # the page that states it first, such as "handbook/memory.md"
    expected: Value
    unit: str
    measure: Callable[[], Any]  # a Value, or a Charted value (chart.py)
    tolerance: float = 0.0
    source: str = ""  # where else the number is published: a paper, a file; a link
    needs: tuple[str, ...] = ("cpu",)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.slug):
            raise UserError(f"claim {self.slug!r}: a slug is lower-case words and numbers with hyphens between.")
        if not inspect.getdoc(self.measure):
            raise UserError(f"claim {self.slug}: its function needs a docstring that says how it measures.")

    @property
    def how(self) -> str:
        """Returns how the number is measured, in words: the function's docstring."""
        return inspect.getdoc(self.measure) or ""

    @property
    def place(self) -> tuple[Path, int]:
        """Returns the file and the line at which the claim begins; the function that measures it follows."""
        function = inspect.unwrap(self.measure)
        return Path(inspect.getfile(function)), inspect.getsourcelines(function)[1]

    @property
    def digest(self) -> str:
        """Returns a hash that changes with the statement and with the code that measures it."""
        return digest((self.statement, self.expected, self.unit, self.tolerance), self.measure)

    def holds(self, measured: Value) -> bool:
        """Returns whether a measured value is within the tolerance."""
        if isinstance(self.expected, bool) or isinstance(measured, bool):
            return measured is self.expected
        numbers, expected = (
            value if isinstance(value, Mapping) else {"": value} for value in (measured, self.expected)
        )
        return numbers.keys() == expected.keys() and all(
            abs(numbers[name] - number) <= self.tolerance + 1e-12 * abs(number)  # a double's last digit does not count
            for name, number in expected.items()
        )


def claim(slug: str, statement: str, **facts: Any) -> Callable[[Callable[[], Any]], Claim]:
    """Makes a claim of the function below it. `facts` are the other fields of Claim; the file's place gives `page`.

    The statement takes its numbers from `expected`: `{expected}`, or `{expected[fp32]:.1f}` for one of several.
    """

    def make(measure: Callable[[], Any]) -> Claim:
        page = page_of(Path(inspect.getfile(inspect.unwrap(measure))))
        return Claim(slug, _filled(slug, statement, facts["expected"]), page, measure=measure, **facts)

    return make


def _filled(slug: str, statement: str, expected: Value) -> str:
    """Returns the statement with expected numbers instead of `{expected}` and `{expected[NAME]:FORMAT}`."""
    numbers: dict[str | None, Any] = dict(expected.items()) if isinstance(expected, Mapping) else {None: expected}

    def number(match: re.Match[str]) -> str:
        name, form = match.groups()
        if name not in numbers:
            raise UserError(f"claim {slug}: {match[0]} in its statement names no number of `expected`.")
        return format(numbers[name], form) if form else text_of(numbers[name])

    return PLACE.sub(number, statement)


def page_of(file: Path) -> str:
    """Returns the page of a file of claims: handbook/claims/NAME.py or /NAME/*.py, or tests/lab-NN-name/claims.py."""
    match file.relative_to(ROOT).with_suffix("").parts:
        case ("handbook", "claims", chapter, *_):
            return f"handbook/{chapter.replace('_', '-')}.md"
        case ("tests", lab, "claims"):
            return f"labs/{lab}.md"
    raise UserError(f"{file}: claims must be in handbook/claims/ or in tests/lab-NN-name/claims.py.")


def text_of(value: Value | None) -> str:
    """Returns a value as text for readers."""
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {text_of(number)}" for name, number in value.items())
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
