"""Report of triage: a table of the signs, and the causes with the place to look first."""

from typing import Any

from rich.table import Table

from rankzero.triage.causes import CAUSES
from rankzero.triage.judge import Diagnosis


def table(diagnosis: Diagnosis) -> Table:
    """Returns the signs as a table, findings last."""
    columns = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("looked at", "saw", "expected", "verdict"):
        columns.add_column(name, overflow="fold")
    for sign in sorted(diagnosis.signs, key=lambda sign: bool(sign.cause)):
        style = "red" if sign.cause else "green"
        columns.add_row(sign.looked_at, _plain(sign.saw), _plain(sign.expected), f"[{style}]{sign.verdict}[/]")
    return columns


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def cause_lines(diagnosis: Diagnosis) -> list[str]:
    """Returns a few lines per cause: key, meaning, place."""
    lines = []
    for number, key in enumerate(diagnosis.causes(), start=1):
        cause = CAUSES[key]
        places = [sign.place for sign in diagnosis.signs if sign.cause == key and sign.place]
        lines += [f"{number}. {key}: {cause.meaning}.", f"   Look first at {cause.look_first}."]
        lines += [f"   Seen at {places[0]}."] if places else []
    return lines


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Returns the diagnosis as plain values."""
    signs = [
        {"looked_at": sign.looked_at, "saw": sign.saw, "expected": sign.expected, "verdict": sign.verdict,
         "cause": sign.cause, "place": sign.place}
        for sign in diagnosis.signs
    ]  # fmt: skip
    return {"signs": signs, "causes": diagnosis.causes()}
