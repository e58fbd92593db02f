"""Excerpts of files in markdown pages, so that the code on a page is code that runs.

An HTML comment of the page names the source; the text up to the closing comment is generated from that source::

    <!-- excerpt: code/lab-02-single-gpu-training/train_single_gpu.py#train_step -->
    <!-- /excerpt -->

After `#` comes a function, a class or `Class.method`; ` body` after that leaves out the signature and the docstring.
`from="..."` and `to="..."` narrow the excerpt to the lines between the two lines that contain those texts, both
included. A file of a language not in LANGUAGES is shown as plain text.

With `since="FILE"` the excerpt is a diff from that file to the first file, without their docstrings; with `#` too, a
diff from that file's function or class of the same name.
"""

import ast
import difflib
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from rankzero.publish.generated_blocks import fill_blocks

LANGUAGES = {".py": "python", ".toml": "toml", ".sbatch": "bash", ".yaml": "yaml"}
_SPEC = re.compile(
    r"(?P<file>[^\s#]+)(?:#(?P<symbol>[\w.]+)(?P<body> body)?)?"
    r'(?: from="(?P<first>[^"]+)")?(?: to="(?P<last>[^"]+)")?(?: since="(?P<since>[^"]+)")?'
)


@dataclass(frozen=True)
class Place:
    """Lines of a file, counted from 1, both ends included. They lie within `symbol` if the excerpt names one."""

    file: Path
    symbol: str | None
    first: int
    last: int
    since: Path | None = None  # the older file, for an excerpt that is a diff


def fill(page: Path, text: str, root: Path) -> str:
    """Returns `text`, the text of `page`, with its excerpts filled. Sources are named relative to `root`."""
    return fill_blocks(page, text, "excerpt", lambda spec, _: _excerpt(spec, root))


def locate(spec: str, root: Path) -> Place:
    """Returns the place of an excerpt's code; `spec` is its comment's text. OSError, SyntaxError or LookupError."""
    parts = _SPEC.fullmatch(spec)
    if parts is None:
        raise LookupError('expected FILE#NAME from="text" to="text" since="FILE"')
    file = root / parts["file"]
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    first, last = 1, len(lines)
    if parts["symbol"]:
        first, last = _symbol_range(source, parts["symbol"], body=bool(parts["body"]))
    if parts["first"]:
        first = _only_line(lines, first, last, parts["first"])
    if parts["last"]:
        last = _only_line(lines, first, last, parts["last"])
    return Place(file, parts["symbol"], first, last, root / parts["since"] if parts["since"] else None)


def _excerpt(spec: str, root: Path) -> str:
    source = locate(spec, root)
    if source.since:
        return _difference(source.since, source.file, source.symbol)
    lines = source.file.read_text(encoding="utf-8").splitlines()[source.first - 1 : source.last]
    code = textwrap.dedent("\n".join(lines)).strip("\n")
    return f"```{LANGUAGES.get(source.file.suffix, 'text')}\n{code}\n```\n"


def _difference(old: Path, new: Path, symbol: str | None) -> str:
    """Returns the diff of two files, or of `symbol` in them, with one line of context around each change."""
    before, after = (_compared_lines(file.read_text(encoding="utf-8"), symbol) for file in (old, new))
    changed = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]  # without the names of the files
    if not changed:
        raise LookupError(f"nothing changed since {old}")
    lines = ["" if line.startswith("@@") else line.rstrip() for line in changed]
    return "```diff\n" + "\n".join(lines).strip("\n") + "\n```\n"


def _compared_lines(source: str, symbol: str | None) -> list[str]:
    """Returns the lines of a function or class, or of the whole file without its docstring."""
    if symbol:
        first, last = _symbol_range(source, symbol, body=False)
        return source.splitlines()[first - 1 : last]
    tree = ast.parse(source)
    return source.splitlines()[tree.body[0].end_lineno if ast.get_docstring(tree) is not None else 0 :]


def _symbol_range(source: str, symbol: str, *, body: bool) -> tuple[int, int]:
    node: ast.AST = ast.parse(source)
    for name in symbol.split("."):
        children = [child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == name]
        if not children:
            raise LookupError(f"there is no {symbol} in it")
        node = children[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    last = node.end_lineno or node.lineno
    if body:
        statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
        return statements[0].lineno, last
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), last


def _only_line(lines: list[str], first: int, last: int, text: str) -> int:
    matches = [number for number in range(first, last + 1) if text in lines[number - 1]]
    if len(matches) != 1:
        raise LookupError(f"'{text}' is on {len(matches)} lines of it, not on one")
    return matches[0]
