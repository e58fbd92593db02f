"""Code similarity: flags students whose functions are the same code up to names."""

import ast
import hashlib
import itertools
import math
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankzero.grading.grade import Flag
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.scan.statement_order import put_in_order

FREE_NODES = 20  # of a function, not counted: correct functions this short all look alike
MIN_SHARED_NODES = 120  # beyond FREE_NODES, over all functions that two students share
CHANCE_BITS = 3.0  # beyond those of the number of pairs: one class of eight has such a pair by chance
MAX_NAMED = 5  # students that one flag names
PUBLISHED = ""  # stands for the published solution among students' ids
COMMON_SHARE = 0.1  # a function of more than this share of a class, and of more than three, is the usual form

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class CodeShape:
    """The code of a function or class without names, comments, docstrings, annotations and layout."""

    name: str
    line: int
    last_line: int
    digest: str
    nodes: int  # of its syntax tree


def similarity_flags(
    sources: Mapping[str, str | bytes],
    stub: str | bytes,
    published: str | bytes | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, tuple[Flag, ...]]:
    """Returns flags of kind "identical", by student id, for code of one lab that several students share.

    A flag means that functions are the same code up to names, dead lines and the order of independent statements, and
    not so by chance. It does not prove that a student copied. Functions of the `stub` are left out, and so are
    functions that more than a tenth of the class (and more than three students) wrote alike. Two students are flagged
    for long code or for rare code:

    - Long: a function counts with the nodes of its syntax tree beyond 20, since shorter code has one reasonable form,
      from 120 nodes on: of six correct answers to Lab 02's loop and schedule in tests/test_grading_scan.py, no two
      share more than 26.
    - Rare: each shared function, however short, counts with the bits of its rarity, log2(students / students with this
      form), unless it is the published form. A pair is flagged if pairs as alike would be found in one of eight classes
      by chance.

    Code that is long and the same as the `published` solution has a flag too. `names` are the students' display names.
    """
    given = set(shapes(stub))
    forms = {student: shapes(source) for student, source in sources.items()}
    stub_digests = {shape.digest for shape in shapes(stub).values()}
    written = {
        student: {shape.digest: shape for shape in own.values() if shape.digest not in stub_digests}
        for student, own in forms.items()
    }
    public = {shape.digest for shape in shapes(published).values()} if published is not None else set()
    writers: dict[str, list[str]] = defaultdict(list)
    for student, code in written.items():
        for digest in code:
            writers[digest].append(student)
    shared: dict[tuple[str, str], list[str]] = defaultdict(list)
    for digest, students in writers.items():
        if len(students) <= max(3, COMMON_SHARE * len(sources)):
            for pair in itertools.permutations(students, 2):
                shared[pair].append(digest)
    bits = {digest: math.log2(len(sources) / len(students)) for digest, students in writers.items()}
    needed_bits = math.log2(max(1, len(sources) * (len(sources) - 1) / 2)) + CHANCE_BITS
    partners: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for (student, other), digests in shared.items():
        code = written[student]
        rare = [digest for digest in digests if digest not in public and code[digest].name in given]
        if functions := _enough(code, digests):
            partners[student][functions].append(other)
        elif sum(bits[digest] for digest in rare) >= needed_bits:
            partners[student][_names(code, rare)].append(other)
    for student, code in written.items():
        if functions := _enough(code, [digest for digest in code if digest in public]):
            partners[student][functions].append(PUBLISHED)
    shown = {PUBLISHED: "the published solution", **(names or {})}
    return {
        student: tuple(_flag(forms[student], functions, others, shown) for functions, others in groups.items())
        for student, groups in partners.items()
    }


def _enough(code: Mapping[str, CodeShape], digests: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the shared functions if they are long enough together, or ()."""
    counted = [digest for digest in digests if code[digest].nodes > FREE_NODES]
    long_enough = sum(code[digest].nodes - FREE_NODES for digest in counted) >= MIN_SHARED_NODES
    return _names(code, counted) if long_enough else ()


def _names(code: Mapping[str, CodeShape], digests: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(code[digest].name for digest in digests))


def _flag(
    own: Mapping[str, CodeShape], functions: Sequence[str], others: Sequence[str], shown: Mapping[str, str]
) -> Flag:
    listed = sorted(others, key=lambda other: shown.get(other, other))
    names = [printable(shown.get(other, other), 40) for other in listed]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    text = f"the same code up to names as {', '.join(names[:MAX_NAMED])}{more}: "
    text += ", ".join(printable(name, 40) for name in functions)
    line = min(own[name].line for name in functions)
    return Flag("identical", text, line, tuple(listed[:MAX_NAMED]))


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
    put_in_order(function)
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
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return CodeShape(function.name, function.lineno, function.end_lineno or function.lineno, digest, count)


def _without_strings(body: Sequence[ast.stmt]) -> list[ast.AST | str]:
    """Returns the statements without docstrings and `pass`."""
    return [
        node
        for node in body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) and not isinstance(node, ast.Pass)
    ]
