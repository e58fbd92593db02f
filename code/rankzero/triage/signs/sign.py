"""Sign: one thing that triage looks at, with the value that it saw and the value that a healthy script has."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

MECHANISM, SYMPTOM = 2, 1  # a sign of one cause alone; a sign that several causes have


@dataclass(frozen=True)
class Sign:
    """One line of the report. Without a cause, all is as expected."""

    looked_at: str
    saw: str
    expected: str
    cause: str = ""  # key of CAUSES
    place: str = ""  # file:line, or the name of a layer
    strength: int = MECHANISM
    rank: int = 0

    @property
    def verdict(self) -> str:
        """`finding` or `ok`."""
        return "finding" if self.cause else "ok"


def sign_if(
    found: bool, looked_at: str, saw: str, expected: str, cause: str, place: str = "", strength: int = MECHANISM
) -> Sign:
    """Returns a sign with its cause if it is a finding, and without if not."""
    return Sign(looked_at, saw, expected, cause if found else "", place if found else "", strength)


def middle(values: Sequence[float]) -> float:
    """Returns the median; 0 for no values."""
    return median(values) if values else 0.0


def named(names: Sequence[str]) -> str:
    """Returns up to three names in words."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
