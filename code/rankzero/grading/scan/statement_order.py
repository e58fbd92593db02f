"""Statement order: code without dead lines, and with independent statements in an order that names do not decide."""

import ast
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

MAX_STATEMENTS = 40  # of a block that is put in order
_BLOCKS = ("body", "orelse", "finalbody")
_MOVABLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
_NAME = re.compile(r"(?<=\bName\(id=)'\w*'|(?<=\barg\(arg=)'\w*'")  # of a variable, in the text that ast.dump returns


def put_in_order(function: ast.AST) -> None:
    """Changes the function: drops statements without effect, and orders neighbors that do not depend on each other."""
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for node, block in _blocks(function):
        setattr(node, block, [statement for statement in getattr(node, block) if not _is_dead(statement, read)])
    structures = _structures(function)
    uses = _uses(function, structures)
    for node, block in _blocks(function):
        statements = getattr(node, block)
        if len(statements) <= MAX_STATEMENTS:
            setattr(node, block, _ordered(statements, uses, structures))


def _blocks(function: ast.AST) -> list[tuple[ast.AST, str]]:
    nodes = list(ast.walk(function))
    return [(node, block) for node in nodes for block in _BLOCKS if isinstance(getattr(node, block, None), list)]


def _is_dead(statement: ast.stmt, read: set[str]) -> bool:
    """Returns whether a statement does nothing: a constant, a print, or a plain value for a name that is never read."""
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.Expr):
        call = statement.value
        is_print = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"
        return is_print or isinstance(call, ast.Constant | ast.Name)
    if not isinstance(statement, ast.Assign) or _calls(statement):
        return False
    return all(isinstance(target, ast.Name) and target.id not in read for target in statement.targets)


def _calls(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Call | ast.Await | ast.Yield | ast.YieldFrom) for node in ast.walk(statement))


def _structures(function: ast.AST) -> dict[int, str]:
    """Returns the form of each statement without names of variables, by the statement's id."""
    statements = (node for node in ast.walk(function) if isinstance(node, (ast.Return, *_MOVABLE)))
    return {id(statement): _NAME.sub("_", ast.dump(statement)) for statement in statements}


def _uses(function: ast.AST, structures: Mapping[int, str]) -> Mapping[str, str]:
    """Returns for each name the forms of the statements in which it stands, and its places there."""
    uses: dict[str, list[str]] = defaultdict(list)
    for statement in ast.walk(function):
        if form := structures.get(id(statement)):
            for place, node in enumerate(ast.walk(statement)):
                if isinstance(node, ast.Name):
                    uses[node.id].append(f"{form}@{place}")
    return {name: "|".join(sorted(forms)) for name, forms in uses.items()}


def _ordered(statements: Sequence[ast.stmt], uses: Mapping[str, str], structures: Mapping[int, str]) -> list[ast.stmt]:
    ordered = list(statements)
    keys = {id(statement): _key(statement, uses, structures) for statement in ordered}
    for end in range(len(ordered) - 1, 0, -1):
        for place in range(end):
            first, second = ordered[place], ordered[place + 1]
            if keys[id(second)] < keys[id(first)] and _independent(first, second):
                ordered[place : place + 2] = second, first
    return ordered


def _key(statement: ast.stmt, uses: Mapping[str, str], structures: Mapping[int, str]) -> tuple[str, ...]:
    if not isinstance(statement, _MOVABLE):
        return ()
    names = (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    return structures[id(statement)], *(uses.get(name, "") for name in names)


def _independent(first: ast.stmt, second: ast.stmt) -> bool:
    """Returns whether two statements can change places: at most one has an effect, and none sets the other's names."""
    if not (isinstance(first, _MOVABLE) and isinstance(second, _MOVABLE)):
        return False
    names, stored, effects = [], [], []
    for statement in (first, second):
        nodes = [node for node in ast.walk(statement) if isinstance(node, ast.expr)]
        names.append({node.id for node in nodes if isinstance(node, ast.Name)})
        stores = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
        stored.append({node.id for node in stores if isinstance(node, ast.Name)})
        effects.append(_calls(statement) or any(isinstance(node, ast.Attribute | ast.Subscript) for node in stores))
    return not (all(effects) or stored[0] & names[1] or stored[1] & names[0])
