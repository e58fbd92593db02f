"""Loader: a learner's file as a module, loaded again at each call, and errors that name its file and line.

The texts of errors are one sentence; below it may stand the line of the file that raised it, indented by four spaces.
"""

import ast
import codecs
import re
import sys
import traceback
from bdb import BdbQuit
from pathlib import Path
from types import ModuleType

from rankzero.errors import UserError

MAX_TEXT = 2000  # characters of an error's text that are read
SOURCE_COLUMNS = 120  # of a line of the file that are shown
MOST_LINES = 4  # of the file that one error shows


class LoadError(UserError):
    """A learner's file that cannot be loaded; the text names the line and the cause."""


def load(path: Path) -> ModuleType:
    """Returns the file at `path` as a module.

    LoadError for a missing file, a syntax error, or anything that its top level raises (sys.exit() included).
    """
    module = ModuleType("exercises")
    sys.modules["exercises"] = module  # where dataclasses, among others, look up the module of a class
    module.__file__ = str(path)
    try:
        data = path.read_bytes()
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise LoadError(f"{path.name} is saved as UTF-16: save it as UTF-8.")
        code = compile(data, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise LoadError(f"{path} cannot be read ({error.strerror}).") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1 + data[: data.find(b"\0") + 1].count(b"\n")
        text = _with_period(f"{path.name}, line {line}: {_syntax_text(error)}")
        raise LoadError(text + source_line(path, line, getattr(error, "offset", None) or 0)) from None
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        sentence, *source = error_text(error, path).split("\n", 1)
        raise LoadError("\n".join([_with_period(sentence), *source])) from None
    return module


def _syntax_text(error: BaseException) -> str:
    if isinstance(error, TabError):
        return "this line is indented by tabs, and others by spaces: use spaces throughout"
    if isinstance(error, SyntaxError) and error.msg.startswith("(unicode error)"):
        return "a byte is no UTF-8: save the file as UTF-8"
    return getattr(error, "msg", "") or str(error) or type(error).__name__


def source_line(path: Path, number: int, column: int = 0) -> str:
    """Returns line `number` of the file, below a line end, indented by four spaces; a caret below `column`, from 1."""
    try:
        line = path.read_bytes().decode(errors="replace").splitlines()[number - 1]
    except (OSError, IndexError):
        return ""
    text = line.expandtabs(1).strip()[:SOURCE_COLUMNS]
    caret = column - 1 - (len(line) - len(line.lstrip()))
    pointer = f"\n    {' ' * caret}^" if column and 0 <= caret <= len(text) else ""
    return f"\n    {text}{pointer}" if text else ""


def _definitions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [node for node in ast.parse(path.read_bytes()).body if isinstance(node, kinds)]


def binding_line(path: Path, name: str) -> int:
    """Returns the last line of the file's top level that defines `name` or assigns to it; 0 if there is none."""
    lines = [node.lineno for node in _definitions(path) if node.name == name]
    assigned = (node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.Assign | ast.AnnAssign))
    names = ((part, node.lineno) for node in assigned for part in ast.walk(node) if isinstance(part, ast.Name))
    lines += [line for part, line in names if part.id == name and isinstance(part.ctx, ast.Store)]
    return max(lines, default=0)


def loop_around(path: Path, number: int) -> int:
    """Returns the first line of the innermost loop that contains line `number` of the file; 0 if there is none."""
    loops = (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.For | ast.While))
    return max((loop.lineno for loop in loops if loop.lineno <= number <= (loop.end_lineno or 0)), default=0)


def source_lines(text: str, path: Path) -> list[str]:
    """Returns the lines of the file that the text names: each as it stands, and with its number if it names several."""
    numbers = list(dict.fromkeys(int(found) for found in re.findall(rf"{re.escape(path.name)}, line (\d+)", text)))
    lines = {number: source_line(path, number).strip() for number in numbers[:MOST_LINES]}
    return [f"line {number}: {line}" if len(lines) > 1 else line for number, line in lines.items() if line]


def with_source_lines(text: str, path: Path) -> str:
    """Returns text that names lines of the file, and below it these lines."""
    return "".join([text, *(f"\n    {line}" for line in source_lines(text, path))])


def _with_period(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def error_text(error: BaseException, path: Path) -> str:
    """Returns the error and its line in `path`: 'exercises.py, line 12: ZeroDivisionError: division by zero'.

    Below it stands that line: of a function that was called with other arguments than it takes, its `def`.
    """
    text = cause_text(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if not lines and (called := re.match(r"TypeError: (\w+)\(\) (takes|missing|got) ", text)):
        lines = [node.lineno for node in _definitions(path) if node.name == called[1]]
    if not lines:
        return f"{text} (in the check, on what your code returned)"
    return with_source_lines(f"{path.name}, line {lines[-1]}: {text}", path)


def cause_text(error: BaseException) -> str:
    """Returns the error without its place: 'ZeroDivisionError: division by zero'."""
    if isinstance(error, SystemExit):
        return "called sys.exit()"
    if isinstance(error, BdbQuit):
        return "a breakpoint() is left here"
    if isinstance(error, EOFError) and str(error) == "EOF when reading a line":
        return "input() waits for somebody to type, and nobody is there"
    if size := re.search(r"you tried to allocate (\d+) bytes", str(error)):
        return f"not enough memory for a tensor of {int(size[1]):,} bytes"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error)[:MAX_TEXT])  # torch prints some words in bold
    return ": ".join([type(error).__name__, *plain.strip().splitlines()[:1]])
