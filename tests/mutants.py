"""Small changes to a solution, each of which a check must notice: a line left out, two swapped, an operator turned."""

import ast
import builtins
import copy
import symtable
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Change = Callable[[Any], None]  # what is done to a node

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
TURNED = dict(_PAIRS) | {two: one for one, two in _PAIRS}


@dataclass(frozen=True)
class Mutant:
    """A changed source. `what` names the function, the change and the line."""

    what: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of every function and class that `source` defines."""
    tree = ast.parse(source)
    for place, defined in enumerate(tree.body):
        if not isinstance(defined, ast.FunctionDef | ast.ClassDef):
            continue
        for number, node in enumerate(ast.walk(defined)):
            for what, change in _changes(node):
                changed = copy.deepcopy(defined)
                change(list(ast.walk(changed))[number])
                body = [*tree.body[:place], changed, *tree.body[place + 1 :]]
                mutated = ast.unparse(ast.Module(body, type_ignores=[]))
                if not _is_broken(mutated):
                    yield Mutant(f"{defined.name}: {what}", mutated)


def _is_broken(source: str) -> bool:
    """Whether it does not compile, or uses a name that nothing defines: that would be noticed anyway."""
    try:
        module = symtable.symtable(source, "mutant", "exec")
    except SyntaxError:
        return True
    known = set(module.get_identifiers()) | set(dir(builtins))
    inside, broken = [*module.get_children()], False
    while inside:
        table = inside.pop()
        inside += table.get_children()
        broken |= any(one.is_global() and one.get_name() not in known for one in table.get_symbols())
    return broken


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    for name in ("body", "orelse"):
        if isinstance(lines := getattr(node, name, None), list):
            yield from _line_changes(name, lines)
    text = _first(node) if isinstance(node, ast.expr | ast.stmt) else ""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in TURNED:
        yield f"operator turned: {text}", lambda node: setattr(node, "op", TURNED[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
        yield f"comparison turned: {text}", lambda node: setattr(node, "ops", [TURNED[type(node.ops[0])]()])
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
    """Whether these are assignments that call nothing, of which none uses what another assigns."""
    nodes = [[*ast.walk(line)] for line in lines]
    if not all(isinstance(line, ast.Assign | ast.AnnAssign) for line in lines):
        return False
    if any(isinstance(node, ast.Call | ast.Attribute | ast.Subscript) for line in nodes for node in line):
        return False
    one, two = ({node.id for node in line if isinstance(node, ast.Name)} for line in nodes)
    stored = {node.id for line in nodes for node in line if isinstance(node, ast.Name) and _is_stored(node)}
    return not one & two & stored


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _first(node: ast.AST) -> str:
    """Its first line, cut to a length that still tells it apart."""
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= 40 else f"{text[:39]}…"
