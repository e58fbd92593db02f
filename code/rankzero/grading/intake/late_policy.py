"""What handing in late costs, and when that is."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from rankzero.errors import UserError
from rankzero.grading.intake.safe_names import printable

DAY = 24 * 60 * 60
FORMS = '"none", "10% a day", "10% a day, at most 3 days", "10% a day after 2 hours", "refuse", "refuse after 2 hours"'

_UNITS = {"m": 60, "h": 60 * 60, "d": DAY}
_LENGTH = r"(?P<{0}>\d{{1,6}}(?:\.\d{{1,3}})?)\s*(?P<{0}_unit>m(?:in(?:ute)?s?)?|h(?:ours?|rs?)?|d(?:ays?)?)"
_NONE = re.compile(r"none|no|no (?:late )?penalty")
_REFUSE = re.compile(r"refuse[ds]?|reject(?:ed)?")
_SHARE = re.compile(r"(?P<share>\d{1,3}(?:\.\d{1,3})?)\s*(?:%|percent)\s*(?:/|per\b|an?\b|each\b|every\b)?\s*days?\b")
_MOST = re.compile(r"(?:at most|up to|max(?:imum)?(?: of)?|for)\s+(?P<days>\d{1,4})\s*d(?:ays?)?\b")
_GRACE = re.compile(rf"(?:after|grace(?: of)?|with)\s+{_LENGTH.format('grace')}\b(?:\s+grace)?")


@dataclass(frozen=True)
class LatePolicy:
    """A share of the lab's most points for each day begun, counted from the end of the grace period."""

    share: Fraction = Fraction(0)  # of the lab's most points, a day
    most_days: int | None = None  # after which nothing is left
    grace: float = 0.0  # seconds after the due date that cost nothing and are no part of the days
    refuse: bool = False  # nothing is left from the first second

    def days(self, late_seconds: float) -> int:
        """Days late, rounded up: one second is a day, 24 hours are one day, a second more is two."""
        return max(0, math.ceil((late_seconds - self.grace) / DAY))

    def penalty(self, max_points: float, late_seconds: float) -> float:
        """The points to take away, at most `max_points`; to the hundredth of a point."""
        days = self.days(late_seconds)
        if days and (self.refuse or (self.most_days is not None and days > self.most_days)):
            return float(max_points)
        return round(float(min(self.share * days, Fraction(1)) * Fraction(max_points)), 2)


def parse_policy(text: str) -> LatePolicy:
    """The policy that `text` words. UserError with the accepted forms for any other text.

    "10% a day" takes away 10 % of the lab's most points (not of those earned) for each day begun. "at most 3 days":
    from the fourth day on nothing is left. "after 2 hours": those are free, and the days count from their end.
    """
    words = " ".join(text[:200].lower().split())
    grace = most = None
    if found := _GRACE.search(words):
        grace = float(found["grace"]) * _UNITS[found["grace_unit"][0]]
        words = words[: found.start()] + words[found.end() :]
    if found := _MOST.search(words):
        most = int(found["days"])
        words = words[: found.start()] + words[found.end() :]
    words = words.strip(" ,;.").replace(" ,", "")
    if _NONE.fullmatch(words) and grace is None and most is None:
        return LatePolicy()
    if _REFUSE.fullmatch(words) and most is None:
        return LatePolicy(refuse=True, grace=grace or 0.0)
    if (found := _SHARE.fullmatch(words)) and 0 < Fraction(found["share"]) <= 100:
        return LatePolicy(Fraction(found["share"]) / 100, most, grace or 0.0)
    raise UserError(f"the late policy {printable(text)!r} is not understood: write one of {FORMS}.")
