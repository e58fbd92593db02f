"""Static scan: flags lines of a submission that a person should read. Nothing is run, and no flag costs points.

The scan finds what is written openly. Well-hidden code escapes it, but neither the sandbox nor the judges depend on it.
"""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from rankzero.exercises.probes.tamper_check import MODULES
from rankzero.grading.grade import Flag
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.scan.flagged_names import ATTRIBUTES, BASES, BUILT_IN, GRADER_FILES, METHODS, PLACES, kind_of

MAX_BYTES = 256 * 1024  # the longest of the labs' solutions has 12 KiB
MAX_FLAGS = 30
MAX_LETTERS = 500  # of a string that is no docstring
MAX_NUMBERS = 100  # written into a list
_ENCODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_INVISIBLE = re.compile(
    r"[\u061c\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069]|[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]|.\ufeff", re.S
)
_BY_NAME = ("getattr", "setattr", "delattr", "hasattr")  # reach attributes by names that may be computed
_FAR_RIGHT = re.compile(r"\S[ \t]{80,}\S")


def scan(source: str | bytes, published: str | bytes = b"") -> tuple[Flag, ...]:
    """Returns the flags of an exercises.py by line, at most 30. Never raises; a syntax error is no flag.

    Left out are the flags that the lab's `published` solution has as well: Lab 09's exercises need os.open and signal.
    Kinds: frames, processes, grader, files, network, patching, library, objects, hidden.
    """
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > MAX_BYTES:
        return (Flag("hidden", f"is {len(data) // 1024:,} KiB long and was not looked at"),)
    needed = _kinds_and_texts(published) if published else set()
    first_lines: dict[tuple[str, str], int] = {}
    flags = [*_text_flags(data), *_code_flags(data)]
    for flag in sorted(flags, key=lambda flag: flag.line):
        if (flag.kind, flag.text) not in needed:
            first_lines.setdefault((flag.kind, flag.text), flag.line)
    unique = [Flag(kind, text, line) for (kind, text), line in first_lines.items()]
    if len(unique) > MAX_FLAGS:
        unique[MAX_FLAGS - 1 :] = [Flag("hidden", f"{len(unique) - MAX_FLAGS + 1} flags more")]
    return tuple(unique)


@cache
def _kinds_and_texts(published: str | bytes) -> set[tuple[str, str]]:
    """Returns what is flagged in a published solution, which the grader compares with each student's file."""
    return {(flag.kind, flag.text) for flag in scan(published)}


def _text_flags(data: bytes) -> Iterator[Flag]:
    """Yields flags of the text as such: encoding, invisible characters, long lines."""
    for number, beginning in enumerate(data.split(b"\n")[:2], start=1):
        encoding = cookie[1].decode("ascii", "replace") if (cookie := _ENCODING.match(beginning)) else "utf-8"
        if encoding.lower().replace("_", "-") not in ("utf-8", "utf8", "ascii"):
            yield Flag("hidden", f"is written in the encoding {printable(encoding)}", number)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Flag("hidden", "is not UTF-8", data.count(b"\n", 0, error.start) + 1)
        text = data.decode("latin-1")
    for number, line in enumerate(text.split("\n"), start=1):
        if invisible := _INVISIBLE.search(line.rstrip("\r")):
            yield Flag("hidden", f"holds an invisible character, {printable(invisible[0])}", number)
        if len(line) > MAX_LETTERS:
            yield Flag("hidden", f"has a line of more than {MAX_LETTERS} letters", number)
        if _FAR_RIGHT.search(line):
            yield Flag("hidden", "has something far to the right, after 80 spaces or more", number)
    if not text.isascii():
        yield from _unusual_names(text)


def _unusual_names(text: str) -> Iterator[Flag]:
    """Yields identifiers with letters that look like other letters, some of which Python treats as equal."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and not token.string.isascii():
                text = f"has a name with letters other than ASCII, {printable(token.string)}"
                yield Flag("hidden", text, token.start[0])
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, SystemError):  # Python 3.12, at a null byte
        return


def _code_flags(data: bytes) -> list[Flag]:
    try:
        with warnings.catch_warnings(action="ignore"):  # about invalid escapes
            tree = ast.parse(data)
    except (RecursionError, MemoryError):
        return [Flag("hidden", "is nested too deeply to be looked at")]
    except (SyntaxError, ValueError, LookupError, OverflowError):
        return []
    scanner = _CodeScanner()
    nodes = list(ast.walk(tree))
    for node in nodes * 2:  # a name may be bound to a name that is bound further on
        scanner.bind(node)
    for node in nodes:
        scanner.visit(node)
    return scanner.flags


def _bindings(node: ast.AST) -> list[tuple[ast.AST, ast.AST | None]]:
    """Returns the targets that a node binds, each with its value, or with a table or call that holds the value."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign | ast.NamedExpr):
        return [(node.target, node.value)]
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [(node.target, node.iter)]
    if isinstance(node, ast.withitem) and node.optional_vars and isinstance(node.context_expr, ast.Call):
        return [(node.optional_vars, argument) for argument in node.context_expr.args]
    return []


@dataclass
class _CodeScanner:
    names: dict[str, str] = field(default_factory=dict)  # the full name of each imported name
    docs: set[int] = field(default_factory=set)  # docstrings, by the node's id
    called: set[int] = field(default_factory=set)  # functions of calls, and objects of attributes, by the node's id
    flags: list[Flag] = field(default_factory=list)

    def bind(self, node: ast.AST) -> None:
        """Records imported names and docstrings, before any node is flagged."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self.names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.names[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            self.docs.add(id(node.value))
        elif isinstance(node, ast.Call):
            self.called.add(id(node.func))
        elif isinstance(node, ast.Attribute):
            self.called.add(id(node.value))
        elif isinstance(node, ast.arguments):
            positional = [*node.posonlyargs, *node.args]
            defaults = zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)
            for argument, default in (*defaults, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
                self.alias(argument.arg, self.objects(default))
        elif isinstance(node, ast.Match):
            names = [*self.objects(node.subject)]
            for case in node.cases:
                self.bind_pattern(case.pattern, names)
        else:
            for target, value in _bindings(node):
                self.bind_target(target, value)

    def bind_target(self, target: ast.AST, value: ast.AST | None) -> None:
        """Records the target of an assignment as another name of the value, or of a part of it."""
        if isinstance(target, ast.Name):
            self.alias(target.id, self.objects(value))
        elif isinstance(target, ast.Starred):
            self.bind_target(target.value, value)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            in_pairs = len(parts) == len(target.elts) and not any(isinstance(part, ast.Starred) for part in target.elts)
            for place, part in enumerate(target.elts):
                self.bind_target(part, parts[place] if in_pairs else value)

    def bind_pattern(self, pattern: ast.AST, names: list[str]) -> None:
        """Records the names that a `case` binds to a value, to a part of it, or to its attributes."""
        self.alias(getattr(pattern, "name", None) or "", names)
        by_attribute: dict[ast.AST, str] = {}
        if isinstance(pattern, ast.MatchClass):
            by_attribute = dict(zip(pattern.kwd_patterns, pattern.kwd_attrs, strict=True))
        for part in ast.iter_child_nodes(pattern):
            attribute = by_attribute.get(part)
            self.bind_pattern(part, [f"{name}.{attribute}" for name in names] if attribute else names)

    def alias(self, name: str, full_names: Iterable[str]) -> None:
        """Records another name of an imported object."""
        for full_name in full_names:
            if name and name not in BUILT_IN:
                self.names.setdefault(name, full_name)

    def objects(self, node: ast.AST | None) -> Iterator[str]:
        """Yields the full names of the imported objects that a value is, or holds: in tables, calls, conditions."""
        if node is None or (full_name := self.dotted(node)):
            yield from [full_name] if node else []
        elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.IfExp | ast.BoolOp | ast.Starred):
            for part in ast.iter_child_nodes(node):
                yield from self.objects(part)

    def dotted(self, node: ast.AST) -> str:
        """Returns the full name of an imported or built-in object, or ''."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < 20:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or not (root := self.names.get(node.id) or BUILT_IN.get(node.id)):
            return ""
        return ".".join([root, *reversed(parts)])

    def flag(self, kind: str, text: str, node: ast.AST) -> None:
        """Adds a flag."""
        self.flags.append(Flag(kind, text, getattr(node, "lineno", 0)))

    def use(self, name: str, node: ast.AST) -> None:
        """Flags a full name if it is listed."""
        if name and (match := kind_of(name)):
            self.flag(match[0], f"uses {printable(match[1])}", node)

    def visit(self, node: ast.AST) -> None:
        """Flags one node of the tree."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
            for alias in node.names:
                self.use(module + alias.name, node)
                if alias.name == "*":
                    self.flag("hidden", f"imports all names of {printable(module[:-1])}", node)
                if (module + alias.name).split(".")[0] in GRADER_FILES:
                    self.flag("grader", f"imports {printable(module + alias.name)}", node)
        elif isinstance(node, ast.Name | ast.Attribute):
            self.use(self.dotted(node), node)
            if self.dotted(node) in MODULES and isinstance(node.ctx, ast.Load) and id(node) not in self.called:
                self.flag("patching", f"uses the module {self.dotted(node)} as a value", node)
            if isinstance(node, ast.Name) and node.id in _BY_NAME and id(node) not in self.called:
                self.flag("hidden", f"uses {node.id} without calling it", node)
            if isinstance(node, ast.Attribute):
                self.attribute(node.attr, node)
                if not isinstance(node.ctx, ast.Load) and (name := self.dotted(node)):
                    self.flag("patching", f"changes {printable(name)}", node)
        elif isinstance(node, ast.Call):
            self.call(node)
        elif isinstance(node, ast.Match):
            for name in self.objects(node.subject):
                for part in (part for case in node.cases for part in ast.walk(case.pattern)):
                    for attribute in part.kwd_attrs if isinstance(part, ast.MatchClass) else ():
                        self.use(f"{name}.{attribute}", part)
        elif isinstance(node, ast.MatchClass):
            for attribute in node.kwd_attrs:
                self.attribute(attribute, node)
        elif isinstance(node, ast.ClassDef):
            if any(keyword.arg == "metaclass" for keyword in node.keywords):
                self.flag("objects", f"class {printable(node.name)} has a metaclass", node)
            for base in node.bases:
                if self.dotted(base) in BASES:
                    self.flag("objects", f"class {printable(node.name)} passes for {self.dotted(base)}", node)
        elif isinstance(node, ast.FunctionDef) and node.name in METHODS:
            self.flag("objects", f"defines {node.name}", node)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if name := self.dotted(node.value):
                self.flag("patching", f"changes what is in {printable(name)}", node)
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            if sum(isinstance(element, ast.Constant) for element in node.elts) > MAX_NUMBERS:
                self.flag("hidden", f"has a list of more than {MAX_NUMBERS} values", node)
        elif isinstance(node, ast.Constant) and id(node) not in self.docs:
            self.constant(node)

    def attribute(self, name: str, node: ast.AST) -> None:
        """Flags an attribute by its name, on any object."""
        if kind := ATTRIBUTES.get(name):
            self.flag(kind, f"uses {name}", node)

    def call(self, node: ast.Call) -> None:
        """Flags getattr and setattr, which reach attributes by computed names, and type, which makes classes."""
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function == "type" and len(node.args) == 3:
            self.flag("objects", "makes a class by calling type", node)
        if function not in _BY_NAME or len(node.args) < 2:
            return
        owner, name = self.dotted(node.args[0]), node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            self.use(f"{owner}.{name.value}" if owner else "", node)
        elif function != "hasattr":
            self.flag("hidden", f"uses {function} with a name that is computed", node)
        if function in ("setattr", "delattr") and owner:
            self.flag("patching", f"changes {printable(owner)}", node)

    def constant(self, node: ast.Constant) -> None:
        """Flags a string or number that is no docstring."""
        value = node.value
        if isinstance(value, str | bytes) and len(value) > MAX_LETTERS:
            self.flag("hidden", f"has a string of more than {MAX_LETTERS} letters", node)
        elif isinstance(value, int) and value.bit_length() > 512:
            self.flag("hidden", "has a number of more than 512 bits", node)
        elif isinstance(value, str):
            self.attribute(value, node)
            if value in METHODS:
                self.flag("objects", f"names {value}", node)
            if value in GRADER_FILES or value.startswith("rankzero."):
                self.flag("grader", f"names {printable(value)!r}", node)
            if PLACES.match(value):
                self.flag("files", f"names the place {printable(value)!r}", node)
