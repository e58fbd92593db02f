"""Digest of a claim: its statement and the code of claims that measures it, without docstrings and decorators."""

import ast
import functools
import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankzero.curriculum import ROOT

TOOLKIT = "rankzero.claims.toolkit."


def digest(stated: tuple[Any, ...], measure: Callable[[], Any]) -> str:
    """Returns 12 hexadecimal digits that change with `stated`, with the function, and with the code that it uses from
    its own file, the files beside it and the toolkit. The library that a claim measures is left out."""
    function = inspect.unwrap(measure)
    sources: list[str] = []
    _add_sources(Path(inspect.getfile(function)), function.__name__, sources)
    return hashlib.sha256((repr(stated) + "\n".join(sources)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class _Definitions:
    """Definitions of a file, and its imports from other files of claims, by name."""

    lines: list[str]
    own: dict[str, ast.stmt]
    imported: dict[str, tuple[Path, str]]  # a file, and the name there


def _add_sources(file: Path, name: str, sources: list[str]) -> None:
    """Adds the source of a definition at a file's top level and of all that it uses."""
    definitions = _definitions(file)
    if name in definitions.imported:
        _add_sources(*definitions.imported[name], sources)
    elif name in definitions.own:
        source, names = _source(file, name)
        if source not in sources:
            sources.append(source)
            for used in names:
                _add_sources(file, used, sources)


@functools.cache
def _definitions(file: Path) -> _Definitions:
    text = file.read_text(encoding="utf-8")
    definitions = _Definitions(text.splitlines(), {}, {})
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions.own[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [child.id for target in targets for child in ast.walk(target) if isinstance(child, ast.Name)]
            definitions.own.update(dict.fromkeys(names, node))
        elif isinstance(node, ast.ImportFrom) and node.module and (node.level or node.module.startswith(TOOLKIT)):
            folder = file.parents[node.level - 1] if node.level else ROOT / "code"
            source = folder.joinpath(*node.module.split(".")).with_suffix(".py")
            definitions.imported.update({alias.asname or alias.name: (source, alias.name) for alias in node.names})
    return definitions


@functools.cache
def _source(file: Path, name: str) -> tuple[str, list[str]]:
    """Returns the lines of a definition without decorators and docstrings, and the names that it uses."""
    definitions = _definitions(file)
    node = definitions.own[name]
    numbers = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    decorators = getattr(node, "decorator_list", [])
    parts = [part for part in ast.iter_child_nodes(node) if part not in decorators]
    names = dict.fromkeys(child.id for part in parts for child in ast.walk(part) if isinstance(child, ast.Name))
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(child) is not None:
            numbers -= set(range(child.body[0].lineno, (child.body[0].end_lineno or 0) + 1))
    return "\n".join(definitions.lines[number - 1] for number in sorted(numbers)), list(names)
