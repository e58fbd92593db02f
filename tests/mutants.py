"""Mutants of a solution, which checks must notice: a line left out, two lines swapped, or an operator replaced."""

import ast
import builtins
import copy
import symtable
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Change = Callable[[Any], None]  # changes a node in place

_PAIRS: tuple[tuple[type[ast.AST], type[ast.AST]], ...] = (
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.And, ast.Or),
)
OPPOSITES = dict(_PAIRS) | {second: first for first, second in _PAIRS}


@dataclass(frozen=True)
class Mutant:
    """A changed source. `description` names the function, the change and the line."""

    description: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Yields every mutant of every function and class that `source` defines."""
    tree = ast.parse(source)
    for place, defined in enumerate(tree.body):
        if not isinstance(defined, ast.FunctionDef | ast.ClassDef):
            continue
        for number, node in enumerate(ast.walk(defined)):
            for description, change in _changes(node):
                changed = copy.deepcopy(defined)
                change(list(ast.walk(changed))[number])
                body = [*tree.body[:place], changed, *tree.body[place + 1 :]]
                mutated = ast.unparse(ast.Module(body, type_ignores=[]))
                if not _is_broken(mutated):
                    yield Mutant(f"{defined.name}: {description}", mutated)


def _is_broken(source: str) -> bool:
    """Tells whether `source` does not compile or uses an undefined name: any test would notice such a mutant."""
    try:
        module = symtable.symtable(source, "mutant", "exec")
    except SyntaxError:
        return True
    known = set(module.get_identifiers()) | set(dir(builtins))
    inside, broken = [*module.get_children()], False
    while inside:
        table = inside.pop()
        inside += table.get_children()
        broken |= any(symbol.is_global() and symbol.get_name() not in known for symbol in table.get_symbols())
    return broken


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    for name in ("body", "orelse"):
        if isinstance(lines := getattr(node, name, None), list):
            yield from _line_changes(name, lines)
    text = _first(node) if isinstance(node, ast.expr | ast.stmt) else ""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OPPOSITES:
        yield f"operator replaced: {text}", lambda node: setattr(node, "op", OPPOSITES[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPPOSITES:
        yield f"comparison replaced: {text}", lambda node: setattr(node, "ops", [OPPOSITES[type(node.ops[0])]()])
    if isinstance(node, ast.Call):
        for place, keyword in enumerate(node.keywords):
            yield f"{keyword.arg} left out: {text}", _without_keyword(place)


def _without_keyword(place: int) -> Change:
    return lambda node: node.keywords.pop(place)


def _line_changes(name: str, lines: list[ast.stmt]) -> Iterator[tuple[str, Change]]:
    def leave_out(place: int) -> Change:
        return lambda node: getattr(node, name).__setitem__(place, ast.Pass())

    def swap(place: int) -> Change:
        def change(node: Any) -> None:
            both = getattr(node, name)
            both[place], both[place + 1] = both[place + 1], both[place]

        return change

    for place, line in enumerate(lines):
        if not _acts(line):
            continue
        yield f"left out: {_first(line)}", leave_out(place)
        if place + 1 < len(lines) and _acts(lines[place + 1]) and not _unrelated(line, lines[place + 1]):
            yield f"swapped: {_first(line)} | {_first(lines[place + 1])}", swap(place)


def _acts(line: ast.stmt) -> bool:
    is_text = isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    return not is_text and not isinstance(line, ast.FunctionDef | ast.ClassDef | ast.Pass)


def _unrelated(*lines: ast.stmt) -> bool:
    """Tells whether two lines are assignments without calls, neither of which uses a name that the other assigns."""
    nodes = [[*ast.walk(line)] for line in lines]
    if not all(isinstance(line, ast.Assign | ast.AnnAssign) for line in lines):
        return False
    if any(isinstance(node, ast.Call | ast.Attribute | ast.Subscript) for line in nodes for node in line):
        return False
    first_names, second_names = ({node.id for node in line if isinstance(node, ast.Name)} for line in nodes)
    stored = {node.id for line in nodes for node in line if isinstance(node, ast.Name) and _is_stored(node)}
    return not first_names & second_names & stored


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _first(node: ast.AST) -> str:
    """Returns the node's first line, cut to 40 characters."""
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= 40 else f"{text[:39]}…"
