"""Escaping untrusted text for terminals and pages: every invisible character is spelled out.

A terminal obeys escape sequences, a page or a spreadsheet turns its text around at U+202E, and a name with a zero-width
space in it looks like another's. Written as `\\x1b`, `\\u202e` and `\\u200b`, they do nothing.
"""

from dataclasses import replace
from unicodedata import category

from rankzero.exercises.checks.report import Report

TEXT_LIMIT = 4000  # characters of a result's text; the library's own are far shorter
NAME_LIMIT = 120
MARKS = 3  # accents per letter; more accents grow over the lines around


def escape_text(text: str, limit: int = TEXT_LIMIT, lines: bool = True) -> str:
    """Returns `text` with invisible characters spelled out, cut after about `limit` printed characters.

    With `lines`, line ends and tabs stay.
    """
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    shown, marks = "", 0
    for character in text:
        if len(shown) >= limit:
            return f"{shown}…"
        kind = category(character)
        marks = marks + 1 if kind[0] == "M" else 0
        stays = lines if character in "\n\t" else character.isprintable() or kind == "Zs"
        shown += character if stays and marks <= MARKS else character.encode("unicode_escape").decode()
    return shown


def escape_name(text: str) -> str:
    """Returns a name, an address or an id, escaped, as one short line."""
    return escape_text(text, NAME_LIMIT, lines=False)


def escape_report(report: Report) -> Report:
    """Returns the report with every text that a learner's file may have influenced escaped."""
    return replace(
        report,
        file=escape_text(report.file, lines=False),
        unusable=escape_text(report.unusable),
        results=tuple(replace(r, text=escape_text(r.text), printed=escape_text(r.printed)) for r in report.results),
    )
