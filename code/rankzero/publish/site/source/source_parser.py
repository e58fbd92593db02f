"""Source parser: a Python file divided into sections, regions and rows."""

import ast
import io
import itertools
import math
import re
import tokenize
from collections.abc import Iterator

from rankzero.publish.site.source.source_parts import Annotated, Region, Row, Section, Words, text_of

LABEL = 32  # characters: a longer comment at the end of a line is moved beside the code
WIDTH = 100  # columns of code that are visible: a comment that makes a line longer is moved, too
OPENING = 2  # the most lines that a paragraph may have before the line with the comment

# An estimate of the gap that words leave in the code beside them.
MEASURE = 37  # characters per line of words
TALLER, HEADING = 1.2, 1.6  # height of a line of words and of a name, in lines of code
GAP, GAIN = 2.5, 1.5  # lines: the gap that is allowed, and the least gain that moves a note away from its line

RULED = re.compile(r"# -{3,} ?(.*)")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def take_apart(source: str) -> Annotated:
    """Returns the file's parts. Each line of the file is in exactly one part."""
    return _Reader(source).file()


def spans(source: str) -> list[tuple[str, int, int]]:
    """Returns name, first and last line of the docstring and of each region, which together have all lines."""
    reader = _Reader(source)
    starts = [(1, "docstring"), *((line, name or "main") for line, name, _ in reader.starts())]
    bounds = itertools.pairwise([*starts, (len(reader.lines) + 1, "")])
    return [(name, line, end - 1) for (line, name), (end, _) in bounds if line < end]


class _Reader:
    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.tree = ast.parse(source)
        self.docstrings = dict(_docstrings(self.tree))
        self.heads = {line for node in _definitions(self.tree) for line in range(_start(node), node.body[0].lineno)}
        self.comments = {
            token.start[0]: token.start[1]
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }

    def file(self) -> Annotated:
        starts = [(line, name, node) for line, name, node in self.starts() if line <= len(self.lines)]
        begin = self.docstrings.get(1, 0)
        docstring = self._words("docstring", 1, begin) if begin else None
        sections = [Section("", None, [])]
        first = starts[0][0] if starts else len(self.lines) + 1
        for (line, name, node), (end, *_) in itertools.pairwise([*starts, (len(self.lines) + 1, "", None)]):
            if ruled := RULED.match(self.lines[line - 1]):
                sections.append(Section(ruled[1], line, []))
                line += 1
            sections[-1].regions.append(Region(name, self._rows(line, end), _loop(node)))
        return Annotated(docstring, [section for section in sections if section.regions], [*range(begin + 1, first)])

    def starts(self) -> Iterator[tuple[int, str, ast.stmt | None]]:
        """Yields first line, name and definition of each region, which begins with the comments right above it."""
        body = self.tree.body[1:] if 1 in self.docstrings else self.tree.body
        imports = [i for i, node in enumerate(body) if isinstance(node, ast.Import | ast.ImportFrom)]
        before, seen = None, set()
        for i, node in enumerate(body):
            plain_name = "constants" if isinstance(node, ast.Assign | ast.AnnAssign) else ""
            name = getattr(node, "name", "imports" if imports and i <= imports[-1] else plain_name)
            if name != before or isinstance(node, Definition):
                yield self._above(_start(node)), _target(node) if name in seen else name, node
            before = name
            seen.add(name)
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, Definition):
                        yield self._above(_start(method)), f"{node.name}.{method.name}", method

    def _above(self, line: int) -> int:
        while line > 1 and self.lines[line - 2].lstrip().startswith("#"):
            line -= 1
        return line

    def _rows(self, first: int, end: int) -> list[Row]:
        rows = [Row()]

        def begin_row(words: Words) -> None:
            # Words begin a row beside their line, or stay in the row before if they would leave a gap there and the
            # code after them is long enough to fill it.
            overhang = _height(rows[-1].words) - len(rows[-1].lines)
            words.apart = overhang > GAP and _height([words]) + GAIN < self._code_after(words, end)
            if not words.apart and (rows[-1].words or any(text.strip() for _, text in rows[-1].lines)):
                rows.append(Row([], _opening(rows[-1]) if words.kind == "note" else []))
            rows[-1].words.append(words)

        number = first
        while number < end:
            source, last = self.lines[number - 1], number
            if number in self.docstrings:
                # A definition's first lines stand beside the docstring below them.
                last = self.docstrings[number]
                rows[-1].words.append(self._words("docstring", number, last))
            elif self._is_comment(number):
                last = next((n for n in range(number, end) if not self._is_comment(n)), end) - 1
                begin_row(self._words("comment", number, last))
            else:
                if self._is_moved(number):
                    at = len(source[: self.comments[number]].rstrip())
                    begin_row(Words("note", [(number, source[at:])]))
                    source = source[:at]
                rows[-1].lines.append((number, source))
            number = last + 1
        return rows

    def _code_after(self, words: Words, end: int) -> int:
        """Returns the number of lines of code from the words to the next words."""
        first = words.lines[-1][0] + 1
        next_words = next((n for n in range(first, end) if self._is_comment(n) or self._is_moved(n)), end)
        return next_words - first + (words.kind == "note")

    def _words(self, kind: str, first: int, last: int) -> Words:
        return Words(kind, [(number, self.lines[number - 1]) for number in range(first, last + 1)])

    def _is_comment(self, number: int) -> bool:
        return self.lines[number - 1].lstrip().startswith("#") and number in self.comments

    def _is_moved(self, number: int) -> bool:
        """Returns whether the comment at the line's end is moved; a label or a tool's directive stays."""
        column = self.comments.get(number)
        if column is None or number in self.heads:
            return False
        line = self.lines[number - 1]
        comment = line[column:].removeprefix("#").strip()
        return not comment.startswith(("type:", "noqa")) and (len(comment) > LABEL or len(line) > WIDTH)


def _height(blocks: list[Words]) -> float:
    """Returns the approximate height of words, in lines of code."""
    paragraphs = [text for words in blocks for text in text_of(words).split("\n\n")]
    lines = sum(math.ceil(len(text) / MEASURE) * TALLER + 0.4 for text in paragraphs)
    return lines + HEADING * sum(words.kind == "docstring" for words in blocks)


def _opening(row: Row) -> list[tuple[int, str]]:
    """Removes a paragraph's first lines from a row, if they are few, so that the paragraph's note stands beside them.

    Returns those lines.
    """
    after_blank = max((i for i, (_, text) in enumerate(row.lines, 1) if not text.strip()), default=0)
    opening = row.lines[after_blank:]
    if not after_blank or len(opening) > OPENING:
        return []
    del row.lines[after_blank:]
    return opening


def _start(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])


def _target(node: ast.stmt) -> str:
    """Returns the first name that a statement assigns: it names each region of constants after the first one."""
    names = (name for name in ast.walk(node) if isinstance(name, ast.Name))
    return next((name.id for name in names if isinstance(name.ctx, ast.Store)), "")


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    return (node for node in ast.walk(tree) if isinstance(node, Definition))


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    for node in [tree, *_definitions(tree)]:
        if ast.get_docstring(node) is not None:
            yield node.body[0].lineno, node.body[0].end_lineno or node.body[0].lineno


def _loop(node: ast.stmt | None) -> int | None:
    if not isinstance(node, ast.FunctionDef):
        return None
    return min((loop.lineno for loop in ast.walk(node) if isinstance(loop, ast.For | ast.While)), default=None)
