"""Safe names: text and ids from students, made fit for a line of output and for a file name."""

import hashlib
import re
import unicodedata

from rankzero.exercises.checks.escape_text import escape_text

_PLAIN = re.compile(r"[a-z0-9_@][a-z0-9._@-]{0,59}", re.ASCII)
_LOOKS_HASHED = re.compile(r".*-[0-9a-f]{8}", re.ASCII)
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.ASCII)  # on Windows, with any ending


def printable(text: str, limit: int = 80) -> str:
    """Returns `text` on one line, cut after `limit` letters, with control characters written as escapes."""
    return escape_text(text, limit, lines=False)


def fold_case(text: str) -> str:
    """Returns `text` for comparison: without case, Unicode's variants of a letter, and repeated spaces."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def safe_name(student_id: str) -> str:
    """Returns the name of a student's files: ASCII, at most 60 characters, and different for different ids.

    An id of at most 60 characters from [a-z0-9._@-] is its own name, unless it begins with `.` or `-`, ends with `.`,
    is reserved by Windows, or ends like a hash. The name of any other id is a readable part of it, `-`, and 8 hex
    digits of its SHA-256. That includes ids with capital letters, since some file systems do not distinguish A from a.
    """
    plain = _PLAIN.fullmatch(student_id) and not student_id.endswith(".")
    if plain and not _RESERVED.fullmatch(student_id) and not _LOOKS_HASHED.fullmatch(student_id):
        return student_id
    ascii_part = unicodedata.normalize("NFKD", student_id[:200]).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^A-Za-z0-9_@]+", "-", ascii_part).strip("-")[:40].rstrip("-") or "student"
    return f"{readable}-{short_hash(student_id)}"


def short_hash(text: str) -> str:
    """Returns 8 hex digits of the SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
