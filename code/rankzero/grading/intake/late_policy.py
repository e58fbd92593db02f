"""Late penalty: the days that a submission is late, and the points that it loses by the lab's late policy."""

import math
from fractions import Fraction

from rankzero.curriculum import LatePolicy

HOUR = 60 * 60
DAY = 24 * HOUR


def days_late(policy: LatePolicy, seconds: float) -> int:
    """Returns the days begun after the grace period: 1 second is 1 day, 24 hours are 1 day, a second more is 2."""
    return max(0, math.ceil((seconds - policy.grace_hours * HOUR) / DAY))


def late_penalty(policy: LatePolicy, max_points: float, seconds: float) -> float:
    """Returns the points that a submission loses, at most `max_points`, rounded to 0.01 points."""
    days = days_late(policy, seconds)
    if days and policy.max_days is not None and days > policy.max_days:
        return float(max_points)
    share = Fraction(str(policy.percent_per_day)) * days / 100
    return round(float(min(share, Fraction(1)) * Fraction(max_points)), 2)
