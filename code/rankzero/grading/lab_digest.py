"""Lab digest: what decides the points of a lab, check by check, so that a grade names all that made it.

A check's digest changes with its judge, its probe, its limits and requirements, the reference's functions that the
probe calls, and everything that these use: other definitions of the lab's files, statements that run when such a file
is loaded, and the library's files that are imported. A name counts as used wherever it occurs, so that no change is
missed. Comments, docstrings and layout do not count, and neither do points: other points need no new verdict.
"""

import ast
import functools
import hashlib
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankzero.curriculum import ROOT, Lab
from rankzero.exercises.checks.check import Check, Exercise, exercises_of

LIBRARY = ROOT / "code"
FREE = {"says", "points"}  # keywords of Check that change no verdict, and their places
FREE_PLACES = (1, 2)


@functools.cache
def check_digests(lab: Lab) -> dict[str, str]:
    """Returns the digest of each check by its name, and of each exercise's known-wrong solutions by the exercise's."""
    digests: dict[str, str] = {}
    for exercise in exercises_of(lab):
        digests |= {check.name: _check_digest(lab, exercise, check) for check in exercise.checks}
        digests[exercise.name] = _digest(_known_wrong_parts(lab, exercise))
    return digests


def lab_digest(lab: Lab) -> str:
    """Returns the digest of all that decides points and diagnoses in a lab, points included."""
    points = (f"{check.name} {check.points}" for exercise in exercises_of(lab) for check in exercise.checks)
    return _digest([*points, *check_digests(lab).values()])


@functools.cache
def commit() -> str:
    """Returns the repository's commit, with `-dirty` if tracked files differ from it; '' outside a git checkout."""
    command = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True)
class _File:
    """A Python file: its definitions by name, the statements that run on loading, and its imports by name."""

    definitions: dict[str, ast.stmt]
    loose: list[ast.stmt]
    imports: dict[str, list[Path]]  # files of the library


def _check_digest(lab: Lab, exercise: Exercise, check: Check) -> str:
    probe_parts, probe_words = _used(lab.probes, {check.probe, check.after})
    judge = _check_call(lab, check)
    judge_parts, _ = _used(lab.checks, _words(judge)) if judge else ([ast.dump(_tree(lab.checks))], set())
    reference_parts, _ = _used(lab.reference, {*exercise.functions, *probe_words})
    fixed = [repr((check.name, check.probe, check.after, check.requires, exercise.functions))]
    fixed += [ast.dump(judge)] if judge else []
    return _digest([*fixed, *probe_parts, *judge_parts, *reference_parts])


def _check_call(lab: Lab, check: Check) -> ast.Call | None:
    """Returns the expression that makes the check, without its points and statement; None if it is made otherwise."""
    for node in ast.walk(_tree(lab.checks)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Check":
            names = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "name")]
            if names and isinstance(names[0], ast.Constant) and names[0].value == check.name:
                arguments = [value for place, value in enumerate(node.args) if place not in FREE_PLACES]
                return ast.Call(node.func, arguments, [word for word in node.keywords if word.arg not in FREE])
    return None


def _known_wrong_parts(lab: Lab, exercise: Exercise) -> Iterator[str]:
    """Yields the exercise's known-wrong solutions as the file writes them."""
    for node in ast.walk(_tree(lab.known_wrong)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "KnownWrong":
            text = ast.dump(node)
            if f"'{exercise.name}/" in text or f"'{exercise.name}'" in text:
                yield text


def _used(path: Path, names: set[str]) -> tuple[list[str], set[str]]:
    """Returns the definitions of a file that `names` lead to, with all they use, and the words in them."""
    file = _file(path)
    words = set(names).union(*map(_words, file.loose))
    reached: set[str] = set()
    while new := (words & file.definitions.keys()) - reached:
        reached |= new
        words = words.union(*(_words(file.definitions[name]) for name in new))
    modules = sorted({module for name in words & file.imports.keys() for module in file.imports[name]})
    parts = [ast.dump(node) for node in file.loose]
    parts += [ast.dump(file.definitions[name]) for name in sorted(reached)]
    return [*parts, *map(_library_digest, modules)], words


def _words(node: ast.AST) -> set[str]:
    """Returns all names, attributes and strings that occur in a statement."""
    words = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            words.add(child.id)
        elif isinstance(child, ast.Attribute):
            words.add(child.attr)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            words.add(child.value)
    return words


@functools.cache
def _tree(path: Path) -> ast.Module:
    """Returns the file's syntax tree without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node, clean=False) is not None
            node.body = node.body[documented:]
    return tree


@functools.cache
def _file(path: Path) -> _File:
    file = _File({}, [], {})
    for node in _tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            file.definitions[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                file.imports.setdefault(name, []).extend(_library_files(node, alias.name))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [child.id for target in targets for child in ast.walk(target) if isinstance(child, ast.Name)]
            plain = all(isinstance(target, ast.Name | ast.Tuple | ast.List) for target in targets)
            file.definitions.update(dict.fromkeys(names, node) if plain else {})
            file.loose.extend([] if plain else [node])
        else:
            file.loose.append(node)
    return file


def _library_files(node: ast.Import | ast.ImportFrom, name: str) -> list[Path]:
    """Returns the library's files that an import names: a module, or a module of a package."""
    module = f"{node.module}.{name}" if isinstance(node, ast.ImportFrom) else name
    if not module.startswith("rankzero."):
        return []
    paths = [LIBRARY.joinpath(*module.split(".")[:length]).with_suffix(".py") for length in (-1, None)]
    return [path for path in paths if path.exists()]


@functools.cache
def _library_digest(path: Path) -> str:
    """Returns the digest of a file of the library and of all that it imports from the library."""
    files, waiting = {path}, [path]
    while waiting:
        for node in ast.walk(_tree(waiting.pop())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                new = {file for alias in node.names for file in _library_files(node, alias.name)} - files
                files |= new
                waiting += new
    return _digest(ast.dump(_tree(file)) for file in sorted(files))
