"""Names that others have chosen, made fit for a line of text and for a file."""

import hashlib
import re
import unicodedata

from rankzero.exercises.checks.escape_text import escape_text

_PLAIN = re.compile(r"[a-z0-9_@][a-z0-9._@-]{0,59}", re.ASCII)
_LOOKS_HASHED = re.compile(r".*-[0-9a-f]{8}", re.ASCII)
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.ASCII)  # on Windows, whatever the ending


def printable(text: str, limit: int = 80) -> str:
    """`text` on one line, cut after `limit` letters; what moves the cursor, hides or turns text reads \\x1b."""
    return escape_text(text, limit, lines=False)


def fold_case(text: str) -> str:
    """`text` as it is compared: without regard to case, Unicode's several spellings of a letter, or spaces."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def safe_name(student_id: str) -> str:
    """The name of a student's files: ASCII, at most 60 characters, and another one for each id, whatever the case.

    It is the id itself if that is made of [a-z0-9._@-], does not start with `.` or `-` nor end with `.`, has at most 60
    characters and is no name that Windows keeps for itself. Otherwise it is a readable part of the id, `-`, and 8 hex
    digits of its SHA-256; this goes for ids with capital letters too, since some file systems do not tell A from a, and
    for ids that look as if they had such digits already.
    """
    plain = _PLAIN.fullmatch(student_id) and not student_id.endswith(".")
    if plain and not _RESERVED.fullmatch(student_id) and not _LOOKS_HASHED.fullmatch(student_id):
        return student_id
    ascii_part = unicodedata.normalize("NFKD", student_id[:200]).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^A-Za-z0-9_@]+", "-", ascii_part).strip("-")[:40].rstrip("-") or "student"
    return f"{readable}-{short_hash(student_id)}"


def short_hash(text: str) -> str:
    """8 hex digits that tell it from others."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
