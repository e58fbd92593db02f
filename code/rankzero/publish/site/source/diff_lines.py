"""Diff lines: added and removed lines, with marks on the words that changed inside them, as HTML."""

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
WORDS = re.compile(r"\w+|\s+|[^\w\s]")
COMMENT = re.compile(r"\s+(?=# )")
PIECES = re.compile(r"<[^>]*>|&[^;]*;|[^<&]")
ALIKE = 0.5  # how much of the code of two lines must be the same for the one to be the other, changed
MARKED = 0.7  # where more of a line than this changed, marks would only say that it is another line

Marks = list[tuple[int, int]]  # from a column to a column

NAMES = {"+": "add", "-": "gone", "@": "hunk", " ": "kept"}


@dataclass(frozen=True)
class Line:
    """One line: sign "+", "-", " " or "@" (which says where a hunk is), its number before and after, if it has one."""

    sign: str
    text: str
    old: int | None = None
    new: int | None = None
    marks: Marks = field(default_factory=list)  # the words that changed


def changes(old: list[str], new: list[str], at: tuple[int, int] = (1, 1)) -> list[Line]:
    """Every line of two texts that begin at the lines `at` of their files."""
    lines = []
    for tag, i1, i2, j1, j2 in _opcodes(old, new):
        if tag == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                lines.append(Line(" ", new[j], at[0] + i, at[1] + j))
        else:
            lines += [Line("-", old[i], old=at[0] + i) for i in range(i1, i2)]
            lines += [Line("+", new[j], new=at[1] + j) for j in range(j1, j2)]
    return mark(lines)


def parse(diff: str) -> list[Line]:
    """The lines of a unified diff; without "@@" lines, as in an excerpt, they have no numbers."""
    lines, old, new = [], None, None
    for text in diff.rstrip("\n").split("\n"):
        if hunk := HUNK.match(text):
            old, new = int(hunk[1]), int(hunk[2])
            lines.append(Line("@", text))
        elif text.startswith(("--- ", "+++ ")) and old is None:
            lines.append(Line("@", text))
        else:
            sign = text[:1] if text[:1] in ("+", "-") else " "
            lines.append(Line(sign, text[1:], old if sign != "+" else None, new if sign != "-" else None))
            old = old + (sign != "+") if old is not None else None
            new = new + (sign != "-") if new is not None else None
    return mark(lines)


def mark(lines: list[Line]) -> list[Line]:
    """The lines, with marks on what changed where a removed line and an added one are nearly the same."""
    marked, i = list(lines), 0
    while i < len(lines):
        gone = _run(lines, i, "-")
        added = _run(lines, gone.stop, "+")
        for one, other in _pairs(lines, gone, added):
            marks = _marks(lines[one].text, lines[other].text)
            marked[one] = replace(lines[one], marks=marks[0])
            marked[other] = replace(lines[other], marks=marks[1])
        i = max(added.stop, i + 1)
    return marked


def html(line: Line, colored: str | None = None, before: str = "", anchor: str = "") -> str:
    """Sign and text of a line, with marks; `colored` is its text as HTML, if that is more than the text."""
    name = f' id="{anchor}"' if anchor else ""
    inside = escape(line.text, quote=False) if colored is None else colored
    sign = "" if line.sign == "@" else f'<span class="sign">{line.sign}</span>'
    return f'<span class="line {NAMES[line.sign]}"{name}>{before}{sign}{marked(inside, line.marks)}\n</span>'


def marked(colored: str, marks: Marks) -> str:
    """HTML with <mark> around the characters of its text that `marks` name."""
    at, is_open, made = 0, False, []
    for piece in PIECES.findall(colored):
        wanted = not piece.startswith("<") and any(start <= at < end for start, end in marks)
        if wanted != is_open:
            made.append("<mark>" if wanted else "</mark>")
            is_open = wanted
        made.append(piece)
        at += not piece.startswith("<")
    return "".join([*made, "</mark>" * is_open])


def _opcodes(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """As difflib's, but that equal ends stay equal: it would find other uses for their empty lines."""
    end = 0
    while end < min(len(old), len(new)) and old[-1 - end] == new[-1 - end]:
        end += 1
    i, j = len(old) - end, len(new) - end
    yield from difflib.SequenceMatcher(lambda line: not line.strip(), old[:i], new[:j], autojunk=False).get_opcodes()
    if end:
        yield "equal", i, len(old), j, len(new)


def _run(lines: list[Line], start: int, sign: str) -> range:
    end = start
    while end < len(lines) and lines[end].sign == sign:
        end += 1
    return range(start, end)


def _pairs(lines: list[Line], gone: range, added: range) -> Iterator[tuple[int, int]]:
    """A removed line and the added line that it most resembles; pairs do not cross."""
    after = added.start
    for one in gone:
        alike = [(_likeness(lines[one].text, lines[other].text), -other) for other in range(after, added.stop)]
        best, other = max(alike, default=(0.0, 0))
        if best >= ALIKE:
            yield one, -other
            after = -other + 1


def _likeness(one: str, other: str) -> float:
    code = [COMMENT.split(text)[0].strip() for text in (one, other)]
    return _matcher(*code).ratio() if all(code) else 0.0


def _matcher(one: str, other: str) -> difflib.SequenceMatcher[str]:
    return difflib.SequenceMatcher(None, WORDS.findall(one), WORDS.findall(other), autojunk=False)


def _marks(one: str, other: str) -> tuple[Marks, Marks]:
    """What changed in the code of two lines, and what in their comments: many small changes are one large one."""
    marks: tuple[Marks, Marks] = ([], [])
    at = [0, 0]
    for texts in itertools.zip_longest(_halves(one), _halves(other), fillvalue=""):
        for side, found in enumerate(_differences(*texts)):
            marks[side].extend((at[side] + start, at[side] + end) for start, end in found)
            at[side] += len(texts[side])
    return marks


def _halves(text: str) -> list[str]:
    found = COMMENT.search(text)
    return [text[: found.start()], text[found.start() :]] if found else [text]


def _differences(one: str, other: str) -> tuple[Marks, Marks]:
    both = WORDS.findall(one), WORDS.findall(other)
    marks: tuple[Marks, Marks] = ([], [])
    for tag, *ends in _matcher(one, other).get_opcodes():
        for side, (start, end) in enumerate((ends[:2], ends[2:])):
            before, inside = "".join(both[side][:start]), "".join(both[side][start:end])
            if tag != "equal" and inside.strip():
                first = len(before) + len(inside) - len(inside.lstrip())
                _add(marks[side], (one, other)[side], first, len(inside.strip()))
    lengths = [sum(end - start for start, end in found) for found in marks]
    too_many = any(length > MARKED * len(text) for length, text in zip(lengths, (one, other), strict=True))
    return ([], []) if too_many else marks


def _add(marks: Marks, text: str, start: int, length: int) -> None:
    """A mark more; where only spaces are between it and the one before, the two are one."""
    if marks and not text[marks[-1][1] : start].strip():
        start, length = marks[-1][0], start + length - marks[-1][0]
        marks.pop()
    marks.append((start, start + length))
