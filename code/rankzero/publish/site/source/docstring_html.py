"""Docstrings and comments as HTML: code between backticks and shapes as code, quotes as on pages."""

import re
from html import escape

_IN_SOURCE = re.compile(
    r"`(?P<code>[^`]+)`|(?P<shape>\[[A-Za-z](?:/[A-Z])?(?:, [A-Z](?:/[A-Z])?)*\])"
    r"""|(?<=[^\s(\[])(?P<closing>['"])|(?P<opening>")"""
)


def prose(text: str) -> str:
    """Returns a docstring's or comment's text as HTML, with backticks and the brackets of shapes as code."""
    return _IN_SOURCE.sub(_typeset, escape(text, quote=False)).strip()


def _typeset(match: re.Match[str]) -> str:
    if match["opening"]:
        return "“"
    if match["closing"]:
        return "’" if match["closing"] == "'" else "”"
    return f"<code>{match['code'] or match['shape']}</code>"
