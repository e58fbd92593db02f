"""Timestamps: due dates and hand-in times with their time zones."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from rankzero.errors import UserError
from rankzero.grading.intake.safe_names import printable

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)\s*(\S*)", re.ASCII)


def parse_time(text: str) -> datetime:
    """Returns the time of "2026-12-01 23:59+01:00", "2026-12-01 23:59 Europe/Berlin" or "2026-12-01T22:59Z".

    Without a zone it is this machine's local time. UserError for any other text, and for a day without a time.
    """
    match = _TIME.fullmatch(text[:100].strip())
    try:
        if match is None:
            raise ValueError
        day, time, zone = match.groups()
        if zone in ("", "UTC") or zone[0] in "Zz+-":
            moment = datetime.fromisoformat(f"{day}T{time[:15]}{'Z' if zone == 'UTC' else zone.upper()}")
        else:
            moment = datetime.fromisoformat(f"{day}T{time[:15]}").replace(tzinfo=ZoneInfo(zone))
        return moment.astimezone() if moment.tzinfo is None else moment
    except (ValueError, OverflowError, OSError, LookupError):
        raise UserError(
            f'{printable(text)!r} is no date with a time: write it as "2026-12-01 23:59+01:00"; '
            "without +01:00 it is this machine's local time."
        ) from None


def seconds_late(submitted_at: str, due: datetime | None) -> float:
    """Returns the seconds from `due` to `submitted_at` (ISO 8601); 0 if in time, or if one of them is unknown."""
    if not submitted_at or due is None:
        return 0.0
    return max(0.0, (parse_time(submitted_at) - due).total_seconds())


def iso_utc(seconds: float) -> str:
    """Returns seconds since 1970 as ISO 8601 in UTC, or '' if that is no date."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""
