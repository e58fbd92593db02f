"""Excerpts of files in markdown pages, so that the code on a page is code that runs.

A page names the source in an HTML comment; the text up to the closing comment is generated from that source::

    <!-- excerpt: code/lab-02-single-gpu-training/train_single_gpu.py#train_step -->
    <!-- /excerpt -->

After `#` comes a function, a class or `Class.method`; ` body` after that leaves out its head and docstring.
`from="..."` and `to="..."` narrow it to the lines between the two that contain those texts, both included. Lines that
mark a solution are left out. A file of a language not in LANGUAGES goes in as text.

With `since="FILE"` the excerpt is a diff: what changed from that file to the first one, docstrings left out, or, if `#`
names something, from what has that name there.
"""

import ast
import difflib
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from rankzero.publish.generated_blocks import fill_blocks
from rankzero.publish.stubs import BEGIN, END

LANGUAGES = {".py": "python", ".toml": "toml", ".sbatch": "bash", ".yaml": "yaml"}
_SPEC = re.compile(
    r"(?P<file>[^\s#]+)(?:#(?P<symbol>[\w.]+)(?P<body> body)?)?"
    r'(?: from="(?P<first>[^"]+)")?(?: to="(?P<last>[^"]+)")?(?: since="(?P<since>[^"]+)")?'
)


@dataclass(frozen=True)
class Place:
    """Lines of a file, counted from 1, both included: those of `symbol`, where one was named, or some of them."""

    file: Path
    symbol: str | None
    first: int
    last: int
    since: Path | None = None  # where the excerpt is what changed: the file before


def fill(page: Path, text: str, root: Path) -> str:
    """Returns `text`, the text of `page`, with its excerpts filled. Sources are named relative to `root`."""
    return fill_blocks(page, text, "excerpt", lambda spec, _: _excerpt(spec, root))


def place(spec: str, root: Path) -> Place:
    """Where the code of an excerpt is; `spec` is what its comment says. OSError, SyntaxError or LookupError."""
    parts = _SPEC.fullmatch(spec)
    if parts is None:
        raise LookupError('expected FILE#NAME from="text" to="text" since="FILE"')
    file = root / parts["file"]
    source = file.read_text(encoding="utf-8")
    first, last = 1, len(source.splitlines())
    if parts["symbol"]:
        first, last = _symbol_range(source, parts["symbol"], body=bool(parts["body"]))
    lines = source.splitlines()
    if parts["first"]:
        first = _only_line(lines, first, last, parts["first"])
    if parts["last"]:
        last = _only_line(lines, first, last, parts["last"])
    return Place(file, parts["symbol"], first, last, root / parts["since"] if parts["since"] else None)


def _excerpt(spec: str, root: Path) -> str:
    found = place(spec, root)
    if found.since:
        return _difference(found.since, found.file, found.symbol)
    lines = found.file.read_text(encoding="utf-8").splitlines()[found.first - 1 : found.last]
    code = textwrap.dedent("\n".join(line for line in lines if line.strip() not in (BEGIN, END))).strip("\n")
    return f"```{LANGUAGES.get(found.file.suffix, 'text')}\n{code}\n```\n"


def _difference(old: Path, new: Path, symbol: str | None) -> str:
    """What changed between two files, or between what `symbol` is in them, with one line around each change."""
    before, after = (
        _symbol_lines(source, symbol) if symbol else _without_docstring(source)
        for source in (file.read_text(encoding="utf-8") for file in (old, new))
    )
    changed = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]  # without the names of the files
    if not changed:
        raise LookupError(f"nothing changed since {old}")
    lines = ["" if line.startswith("@@") else line.rstrip() for line in changed]
    return "```diff\n" + "\n".join(lines).strip("\n") + "\n```\n"


def _without_docstring(source: str) -> list[str]:
    first = ast.parse(source).body[0]
    return source.splitlines()[first.end_lineno if ast.get_docstring(ast.parse(source)) is not None else 0 :]


def _symbol_lines(source: str, symbol: str) -> list[str]:
    first, last = _symbol_range(source, symbol, body=False)
    return source.splitlines()[first - 1 : last]


def _symbol_range(source: str, symbol: str, *, body: bool) -> tuple[int, int]:
    node: ast.AST = ast.parse(source)
    for name in symbol.split("."):
        found = [child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == name]
        if not found:
            raise LookupError(f"there is no {symbol} in it")
        node = found[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    last = node.end_lineno or node.lineno
    if body:
        statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
        return statements[0].lineno, last
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), last


def _only_line(lines: list[str], first: int, last: int, text: str) -> int:
    found = [number for number in range(first, last + 1) if text in lines[number - 1]]
    if len(found) != 1:
        raise LookupError(f"'{text}' is on {len(found)} lines of it, not on one")
    return found[0]
