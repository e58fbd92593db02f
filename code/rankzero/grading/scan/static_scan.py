"""A look at a submission's text, for what a person should see: nothing is run, and nothing found takes points away.

It sees what is written openly. Who hides well is not found here, and needs not be: the sandbox and the judges do not
depend on it.
"""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from rankzero.grading.grade import Flag
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.scan.code_similarity import similarity_flags
from rankzero.grading.scan.flagged_names import ATTRIBUTES, BASES, BUILT_IN, GRADER_FILES, METHODS, PLACES, kind_of

__all__ = ["scan", "similarity_flags"]

MOST_BYTES = 256 * 1024  # the longest of the labs' solutions has 12 KiB
MOST_FLAGS = 30
MOST_LETTERS = 500  # of a string that is no docstring
MOST_NUMBERS = 100  # written into a list
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_UNSEEN = re.compile(
    r"[\u061c\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069]|[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]|.\ufeff", re.S
)
_FAR_RIGHT = re.compile(r"\S[ \t]{80,}\S")


def scan(source: str | bytes) -> tuple[Flag, ...]:
    """What stands out in an exercises.py, by line: at most 30 flags. Never raises; a syntax error is no flag.

    Kinds: frames, processes, grader, files, network, patching, objects, hidden.
    """
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > MOST_BYTES:
        return (Flag("hidden", f"is {len(data) // 1024:,} KiB long and was not looked at"),)
    found: dict[tuple[str, str], int] = {}
    flags = [*_of_text(data), *_of_code(data)]
    for flag in sorted(flags, key=lambda flag: flag.line):
        found.setdefault((flag.kind, flag.text), flag.line)
    unique = [Flag(kind, text, line) for (kind, text), line in found.items()]
    if len(unique) > MOST_FLAGS:
        unique[MOST_FLAGS - 1 :] = [Flag("hidden", f"{len(unique) - MOST_FLAGS + 1} flags more")]
    return tuple(unique)


def _of_text(data: bytes) -> Iterator[Flag]:
    """What the letters alone tell."""
    for number, beginning in enumerate(data.split(b"\n")[:2], start=1):
        if (cookie := _COOKIE.match(beginning)) and cookie[1].lower().replace(b"_", b"-") not in (
            b"utf-8",
            b"utf8",
            b"ascii",
        ):
            yield Flag(
                "hidden", f"is written in the encoding {printable(cookie[1].decode('ascii', 'replace'))}", number
            )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Flag("hidden", "is not UTF-8", data.count(b"\n", 0, error.start) + 1)
        text = data.decode("latin-1")
    for number, line in enumerate(text.split("\n"), start=1):
        if unseen := _UNSEEN.search(line.rstrip("\r")):
            yield Flag("hidden", f"holds an invisible character, {printable(unseen[0])}", number)
        if len(line) > MOST_LETTERS:
            yield Flag("hidden", f"has a line of more than {MOST_LETTERS} letters", number)
        if _FAR_RIGHT.search(line):
            yield Flag("hidden", "has something far to the right, after 80 spaces or more", number)
    if not text.isascii():
        yield from _odd_names(text)


def _odd_names(text: str) -> Iterator[Flag]:
    """Identifiers with letters that look like others; Python takes some of them for those."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and not token.string.isascii():
                yield Flag(
                    "hidden", f"has a name with letters other than ASCII, {printable(token.string)}", token.start[0]
                )
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return


def _of_code(data: bytes) -> list[Flag]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes and the like
            tree = ast.parse(data)
    except (RecursionError, MemoryError):
        return [Flag("hidden", "is nested too deeply to be looked at")]
    except (SyntaxError, ValueError, LookupError, OverflowError):
        return []
    look = _CodeScanner()
    nodes = list(ast.walk(tree))
    for node in nodes:
        look.bind(node)
    for node in nodes:
        look.at(node)
    return look.flags


@dataclass
class _CodeScanner:
    names: dict[str, str] = field(default_factory=dict)  # what an imported name stands for
    docs: set[int] = field(default_factory=set)  # docstrings, by the node's id
    flags: list[Flag] = field(default_factory=list)

    def bind(self, node: ast.AST) -> None:
        """Learns names and docstrings, before anything is judged."""
        if isinstance(node, ast.Import):
            for one in node.names:
                self.names[one.asname or one.name.partition(".")[0]] = (
                    one.name if one.asname else one.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                self.names[one.asname or one.name] = f"{node.module or ''}.{one.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if (stands_for := self.dotted(node.value)) and node.targets[0].id not in self.names:
                self.names[node.targets[0].id] = stands_for
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            self.docs.add(id(node.value))

    def dotted(self, node: ast.AST) -> str:
        """The full name of what is imported or built in; empty for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < 20:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or not (root := self.names.get(node.id) or BUILT_IN.get(node.id)):
            return ""
        return ".".join([root, *reversed(parts)])

    def flag(self, kind: str, text: str, node: ast.AST) -> None:
        """Notes it."""
        self.flags.append(Flag(kind, text, getattr(node, "lineno", 0)))

    def use(self, name: str, node: ast.AST) -> None:
        """Looks a full name up."""
        if name and (found := kind_of(name)):
            self.flag(found[0], f"uses {printable(found[1])}", node)

    def at(self, node: ast.AST) -> None:
        """One node of the tree."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
            for one in node.names:
                self.use(module + one.name, node)
                if one.name == "*":
                    self.flag("hidden", f"imports all names of {printable(module[:-1])}", node)
                if (module + one.name).split(".")[0] in GRADER_FILES:
                    self.flag("grader", f"imports {printable(module + one.name)}", node)
        elif isinstance(node, ast.Name | ast.Attribute):
            self.use(self.dotted(node), node)
            if isinstance(node, ast.Attribute):
                self.attribute(node.attr, node)
                if not isinstance(node.ctx, ast.Load) and (name := self.dotted(node)):
                    self.flag("patching", f"changes {printable(name)}", node)
        elif isinstance(node, ast.Call):
            self.call(node)
        elif isinstance(node, ast.ClassDef):
            for base in node.bases:
                if self.dotted(base) in BASES:
                    self.flag("objects", f"class {printable(node.name)} passes for {self.dotted(base)}", node)
        elif isinstance(node, ast.FunctionDef) and node.name in METHODS:
            self.flag("objects", f"defines {node.name}", node)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if name := self.dotted(node.value):
                self.flag("patching", f"changes what is in {printable(name)}", node)
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            if sum(isinstance(one, ast.Constant) for one in node.elts) > MOST_NUMBERS:
                self.flag("hidden", f"has a list of more than {MOST_NUMBERS} values", node)
        elif isinstance(node, ast.Constant) and id(node) not in self.docs:
            self.constant(node)

    def attribute(self, name: str, node: ast.AST) -> None:
        """An attribute of whatever object."""
        if kind := ATTRIBUTES.get(name):
            self.flag(kind, f"uses {name}", node)

    def call(self, node: ast.Call) -> None:
        """getattr and setattr reach what is not written as an attribute; type makes what is not written as a class."""
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function == "type" and len(node.args) == 3:
            self.flag("objects", "makes a class by calling type", node)
        if function not in ("getattr", "setattr", "delattr", "hasattr") or len(node.args) < 2:
            return
        owner, name = self.dotted(node.args[0]), node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            self.use(f"{owner}.{name.value}" if owner else "", node)
        elif function != "hasattr":
            self.flag("hidden", f"uses {function} with a name that is computed", node)
        if function in ("setattr", "delattr") and owner:
            self.flag("patching", f"changes {printable(owner)}", node)

    def constant(self, node: ast.Constant) -> None:
        """A string or number that is no docstring."""
        value = node.value
        if isinstance(value, str | bytes) and len(value) > MOST_LETTERS:
            self.flag("hidden", f"has a string of more than {MOST_LETTERS} letters", node)
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
