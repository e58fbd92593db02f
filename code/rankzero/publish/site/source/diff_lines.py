"""Diff lines: added and removed lines as HTML, with marks on the words that changed inside them."""

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape

from rankzero.publish.site.source.syntax_highlighting import line_style

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
WORDS = re.compile(r"\w+|\s+|[^\w\s]")
COMMENT = re.compile(r"(?=\s+# )")  # the empty place between the code and the comment of a line
PIECES = re.compile(r"<[^>]*>|&[^;]*;|[^<&]")
ALIKE = 0.5  # the least similarity (0 to 1) of the code of two lines that count as one changed line
MARKED = 0.7  # a line of which a larger part changed gets no marks

Marks = list[tuple[int, int]]  # first column, and column after the last

CSS_CLASSES = {"+": "add", "-": "gone", "@": "hunk", " ": "kept"}


@dataclass(frozen=True)
class Line:
    """One line: sign "+", "-", " " or "@" (a hunk's head), and the line's number in each file that has the line."""

    sign: str
    text: str
    old: int | None = None
    new: int | None = None
    marks: Marks = field(default_factory=list)  # the words that changed


def changes(old: list[str], new: list[str], first: tuple[int, int] = (1, 1)) -> list[Line]:
    """Returns the lines of the diff of two texts, which begin at the lines `first` of their files."""
    lines = []
    for tag, i1, i2, j1, j2 in _opcodes(old, new):
        if tag == "equal":
            lines += [Line(" ", new[j], first[0] + j - j1 + i1, first[1] + j) for j in range(j1, j2)]
        else:
            lines += [Line("-", old[i], old=first[0] + i) for i in range(i1, i2)]
            lines += [Line("+", new[j], new=first[1] + j) for j in range(j1, j2)]
    return mark(lines)


def parse(diff: str) -> list[Line]:
    """Returns the lines of a unified diff. In a diff without "@@" lines, such as an excerpt, lines have no numbers."""
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
    """Returns the lines, with marks on the changed words of each removed line that resembles an added line."""
    marked_lines = list(lines)
    runs = [list(run) for _, run in itertools.groupby(range(len(lines)), key=lambda i: lines[i].sign)]
    for removed, added in itertools.pairwise(runs):
        if lines[removed[0]].sign + lines[added[0]].sign == "-+":
            for old, new in _pairs(lines, removed, added):
                old_marks, new_marks = _marks(lines[old].text, lines[new].text)
                marked_lines[old] = replace(lines[old], marks=old_marks)
                marked_lines[new] = replace(lines[new], marks=new_marks)
    return marked_lines


def html(line: Line, colored: str | None = None, before: str = "", anchor: str = "") -> str:
    """Returns a line's sign and text with marks as HTML; `colored` is its text as HTML, if it has colors."""
    name = f' id="{anchor}"' if anchor else ""
    text = escape(line.text, quote=False) if colored is None else colored
    sign = "" if line.sign == "@" else f'<span class="sign">{line.sign}</span>'
    style = line_style(line.text)
    return f'<span class="line {CSS_CLASSES[line.sign]}"{name}{style}>{before}{sign}{marked(text, line.marks)}\n</span>'


def marked(colored: str, marks: Marks) -> str:
    """Returns HTML with <mark> around the characters of its text at the columns of `marks`."""
    column, is_open, pieces = 0, False, []
    for piece in PIECES.findall(colored):
        is_marked = not piece.startswith("<") and any(start <= column < end for start, end in marks)
        if is_marked != is_open:
            pieces.append("<mark>" if is_marked else "</mark>")
            is_open = is_marked
        pieces.append(piece)
        column += not piece.startswith("<")
    return "".join([*pieces, "</mark>" * is_open])


def _opcodes(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yields difflib's opcodes, but keeps equal ends equal: difflib would match empty lines in them with other ones."""
    end = 0
    while end < min(len(old), len(new)) and old[-1 - end] == new[-1 - end]:
        end += 1
    i, j = len(old) - end, len(new) - end
    yield from difflib.SequenceMatcher(lambda line: not line.strip(), old[:i], new[:j], autojunk=False).get_opcodes()
    if end:
        yield "equal", i, len(old), j, len(new)


def _pairs(lines: list[Line], removed: list[int], added: list[int]) -> Iterator[tuple[int, int]]:
    """Yields each removed line with the added line that it most resembles; pairs do not cross."""
    for old in removed:
        ratios = [_similarity(lines[old].text, lines[new].text) for new in added]
        best = max(ratios, default=0.0)
        if best >= ALIKE:
            place = ratios.index(best)
            yield old, added[place]
            added = added[place + 1 :]


def _similarity(old: str, new: str) -> float:
    """Returns the similarity of the code of two lines, 0 to 1."""
    before, after = (WORDS.findall(COMMENT.split(text, maxsplit=1)[0].strip()) for text in (old, new))
    return difflib.SequenceMatcher(None, before, after, autojunk=False).ratio() if before and after else 0.0


def _marks(old: str, new: str) -> tuple[Marks, Marks]:
    """Returns the marks of two lines, whose code and comments are compared separately."""
    marks: tuple[Marks, Marks] = ([], [])
    columns = [0, 0]
    halves = [COMMENT.split(text, maxsplit=1) for text in (old, new)]
    for texts in itertools.zip_longest(*halves, fillvalue=""):
        for side, differences in enumerate(_differences(*texts)):
            marks[side].extend((columns[side] + start, columns[side] + end) for start, end in differences)
            columns[side] += len(texts[side])
    return marks


def _differences(old: str, new: str) -> tuple[Marks, Marks]:
    """Returns the marks of two texts, or none if too much of one text changed."""
    words = WORDS.findall(old), WORDS.findall(new)
    marks: tuple[Marks, Marks] = ([], [])
    for tag, *ends in difflib.SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        for side, (start, end) in enumerate((ends[:2], ends[2:])):
            before, changed = "".join(words[side][:start]), "".join(words[side][start:end])
            if tag != "equal" and changed.strip():
                first = len(before) + len(changed) - len(changed.lstrip())
                _add(marks[side], (old, new)[side], first, len(changed.strip()))
    lengths = [sum(end - start for start, end in side) for side in marks]
    too_many = any(length > MARKED * len(text) for length, text in zip(lengths, (old, new), strict=True))
    return ([], []) if too_many else marks


def _add(marks: Marks, text: str, start: int, length: int) -> None:
    """Adds a mark, or extends the last mark if only spaces are between them."""
    if marks and not text[marks[-1][1] : start].strip():
        start, length = marks[-1][0], start + length - marks[-1][0]
        marks.pop()
    marks.append((start, start + length))
