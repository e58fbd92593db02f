"""Dependencies: the code on which an exercise's checks depend, so that a save checks again only what it may change."""

import ast
from collections.abc import Callable, Collection, Iterable, Sequence

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Exercise

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def code_by_exercise(lab: Lab, source: bytes, exercises: Sequence[Exercise]) -> dict[str, str]:
    """Returns by exercise, in a form to compare, the code of the learner's file on which its checks depend.

    This is the code of its functions, of the functions that its probes call, and of all that these name, and each
    statement outside of functions and classes. Comments do not count. Empty for a file with a syntax error.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    probes = ast.parse(lab.probes.read_bytes())
    return {exercise.name: _code(tree, probes, exercise) for exercise in exercises}


def _code(tree: ast.Module, probes: ast.Module, exercise: Exercise) -> str:
    names = {name for check in exercise.checks for name in (check.probe, check.after)}
    called = _attributes(_reached(probes, names, _global_names))
    always = [node for node in tree.body if not isinstance(node, Definition) or node.decorator_list]
    reached = _reached(tree, {*exercise.functions, *called, *_names(always)}, _names)
    return "\n".join(ast.dump(node) for node in tree.body if node in reached or node in always)


def _reached(
    tree: ast.Module, names: Collection[str], names_in: Callable[[Iterable[ast.AST]], set[str]]
) -> list[ast.stmt]:
    """Returns the functions and classes of the file with these names, and those that they name, and so on."""
    reached: list[ast.stmt] = []
    definitions = [node for node in tree.body if isinstance(node, Definition)]
    names = set(names)
    while more := [node for node in definitions if node.name in names and node not in reached]:
        reached += more
        names |= names_in(more)
    return reached


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def _global_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Returns the names that are not of local variables. In a learner's file, a name may be of both kinds."""
    parts = [(node, part) for node in nodes for part in ast.walk(node)]
    stored = {(node, part.id) for node, part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    stored |= {(node, part.arg) for node, part in parts if isinstance(part, ast.arg)}
    return {part.id for node, part in parts if isinstance(part, ast.Name) and (node, part.id) not in stored}


def _attributes(nodes: Iterable[ast.AST]) -> set[str]:
    """Returns the names of all attributes in the code: `learner.shard`, or a text, for `getattr(learner, "shard")`."""
    parts = [part for node in nodes for part in ast.walk(node)]
    texts = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return texts | {part.attr for part in parts if isinstance(part, ast.Attribute)}
