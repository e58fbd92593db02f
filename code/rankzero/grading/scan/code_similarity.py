"""Code similarity: flags students whose functions are the same code up to names."""

import ast
import hashlib
import itertools
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankzero.grading.grade import Flag
from rankzero.grading.intake.safe_names import printable

FREE_NODES = 20  # of a function, not counted: correct functions this short all look alike
MIN_SHARED_NODES = 120  # beyond FREE_NODES, over all functions that two students share
COMMON_SHARE = 0.1  # a function of more than this share of a class, and of more than three, is the usual form

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class CodeShape:
    """The code of a function or class without names, comments, docstrings, annotations and layout."""

    digest: str
    nodes: int  # of its syntax tree


def similarity_flags(
    sources: Mapping[str, str | bytes], stub: str | bytes, published: str | bytes | None = None
) -> dict[str, tuple[Flag, ...]]:
    """Returns flags of kind "identical", by student id, for code of one lab that several students share.

    A flag means that functions are the same code up to names, and too long to be so by chance. It does not prove
    that a student copied. Functions of the `stub` are left out, and so are functions that more than a tenth of
    the class (and more than three students) wrote alike. A function counts with the nodes of its syntax tree beyond 20,
    since shorter code has one reasonable form, and a pair of students is flagged from 120 nodes on: of six correct
    answers to Lab 02's loop and schedule in tests/test_grading_scan.py, no two share more than 26. The `published`
    solution is compared too and named as such.
    """
    given = {shape.digest for shape in shapes(stub).values()}
    written = {
        student: {
            shape.digest: (name, shape.nodes) for name, shape in shapes(source).items() if shape.digest not in given
        }
        for student, source in sources.items()
    }
    writers: dict[str, list[str]] = defaultdict(list)
    for student, code in written.items():
        for digest in code:
            writers[digest].append(student)
    shared: dict[tuple[str, str], list[str]] = defaultdict(list)
    for digest, students in writers.items():
        if len(students) <= max(3, COMMON_SHARE * len(sources)):
            for pair in itertools.permutations(students, 2):
                shared[pair].append(digest)
    partners: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for (student, other), digests in shared.items():
        if functions := _enough(written[student], digests):
            partners[student][functions].append(printable(other, 40))
    if published is not None:
        public = {shape.digest for shape in shapes(published).values()}
        for student, code in written.items():
            if functions := _enough(code, [digest for digest in code if digest in public]):
                partners[student][functions].append("the published solution")
    return {
        student: tuple(
            Flag("identical", f"the same code up to names as {_listed(others)}: {', '.join(functions)}")
            for functions, others in groups.items()
        )
        for student, groups in partners.items()
    }


def _enough(code: Mapping[str, tuple[str, int]], digests: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the shared functions if they are long enough together, or ()."""
    counted = [(name, nodes - FREE_NODES) for name, nodes in (code[digest] for digest in digests) if nodes > FREE_NODES]
    if sum(nodes for _, nodes in counted) < MIN_SHARED_NODES:
        return ()
    return tuple(sorted(printable(name, 40) for name, _ in counted))


def _listed(others: Sequence[str]) -> str:
    return ", ".join(sorted(others)[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")


def shapes(source: str | bytes) -> dict[str, CodeShape]:
    """Returns the shape of each top-level function and class; {} if the file cannot be parsed, or is huge."""
    if len(source) > 256 * 1024:
        return {}
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, LookupError, OverflowError):
        return {}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return {node.name: _shape(node, modules) for node in tree.body if isinstance(node, _Definition)}


def _shape(function: _Definition, modules: Mapping[str, str]) -> CodeShape:
    """Returns the shape, node by node without recursion. Names that are not imported become numbers."""
    numbers: dict[str, int] = {}
    parts: list[str] = []
    waiting = _without_strings(function.body)[::-1]
    if not isinstance(function, ast.ClassDef):
        waiting.append(function.args)  # in their order, so that swapped arguments differ

    def name(text: str) -> str:
        return modules.get(text) or f"#{numbers.setdefault(text, len(numbers))}"

    count = 0
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign(targets=[node.target], value=node.value)
        count += not isinstance(node, ast.expr_context | ast.operator | ast.cmpop | ast.boolop | ast.unaryop)
        parts.append(type(node).__name__)
        waiting.append(")")
        inner: list[ast.AST | str] = []
        for key, value in ast.iter_fields(node):
            if key in ("annotation", "returns", "type_comment", "kind", "ctx", "type_params"):
                continue
            if isinstance(value, str) and key in ("id", "arg", "name") and not isinstance(node, ast.keyword):
                inner.append(name(value))
            elif key == "body" and isinstance(value, list):
                inner += _without_strings(value)
            elif isinstance(value, list):
                inner += [item if isinstance(item, ast.AST) else name(str(item)) for item in value]
            elif isinstance(value, ast.AST):
                inner.append(value)
            else:
                inner.append(hex(value) if isinstance(value, int) else f"{value!r:.200}")
        waiting += reversed(inner)
    return CodeShape(hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest(), count)


def _without_strings(body: Sequence[ast.stmt]) -> list[ast.AST | str]:
    """Returns the statements without docstrings and `pass`."""
    return [
        node
        for node in body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) and not isinstance(node, ast.Pass)
    ]
