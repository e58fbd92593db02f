"""Loader: a learner's file as a module, loaded again at each call, and errors that name its file and line.

The texts of errors are one sentence; below it may stand the line of the file that raised it, indented by four spaces.
"""

import ast
import codecs
import functools
import re
import sys
import traceback
from bdb import BdbQuit
from collections.abc import Collection
from pathlib import Path
from types import CodeType, ModuleType

from rankzero.errors import UserError
from rankzero.exercises.probes.error_advice import advice_on
from rankzero.learn.distributed.rank_failures import CALLED_FROM

MAX_TEXT = 2000  # characters of an error's text that are read
SOURCE_COLUMNS = 120  # of a line of the file that are shown
MOST_LINES = 4  # of the file that one error shows
NONE_CALLED = "'NoneType' object is not callable"


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
        code = compiled(data, str(path))
    except OSError as error:
        raise LoadError(f"{path} cannot be read ({error.strerror}).") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1 + data[: data.find(b"\0") + 1].count(b"\n")
        text = with_period(f"{path.name}, line {line}: {_syntax_text(error)}")
        raise LoadError(text + source_line(path, line, getattr(error, "offset", None) or 0)) from None
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        sentence, *source = error_text(error, path).split("\n", 1)
        raise LoadError("\n".join([with_period(sentence), *source])) from None
    return module


@functools.lru_cache(maxsize=8)
def compiled(source: bytes, name: str) -> CodeType:
    """Returns the code of a file. The probe server compiles a lab's probes once for all of its children."""
    return compile(source, name, "exec", dont_inherit=True)


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
    """Returns the first line of the loop around line `number` of the file that is likely endless; 0 if there is none.

    This is the innermost `while`, or else the innermost `for`.
    """
    loops = (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.For | ast.While))
    around = [loop for loop in loops if loop.lineno <= number <= (loop.end_lineno or 0)]
    likely = [loop for loop in around if isinstance(loop, ast.While)] or around
    return max((loop.lineno for loop in likely), default=0)


def source_lines(text: str, path: Path) -> list[str]:
    """Returns the lines of the file that the text names: each as it stands, and with its number if it names several."""
    return _numbered(path, [int(number) for number in re.findall(rf"{re.escape(path.name)}, line (\d+)", text)])


def _numbered(path: Path, numbers: list[int]) -> list[str]:
    lines = {number: source_line(path, number).strip() for number in list(dict.fromkeys(numbers))[:MOST_LINES]}
    return [f"line {number}: {line}" if len(lines) > 1 else line for number, line in lines.items() if line]


def numbered_lines(path: Path, numbers: list[int]) -> str:
    """Returns these lines of the file, each below a line end, with its number if there are several."""
    return "".join(f"\n    {line}" for line in _numbered(path, numbers))


def with_source_lines(text: str, path: Path) -> str:
    """Returns text that names lines of the file, and below it these lines, unless they stand there already."""
    if "\n    " in text:
        return text
    return "".join([text, *(f"\n    {line}" for line in source_lines(text, path))])


def with_period(text: str) -> str:
    """Returns the text with a period, unless it ends like a sentence."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def error_text(error: BaseException, path: Path, functions: Collection[str] = (), others: Collection[str] = ()) -> str:
    """Returns the error and its line in `path`: 'exercises.py, line 12: ZeroDivisionError: division by zero'.

    Below it stands that line: of a function that was called with other arguments than it takes, its `def`. `functions`
    are those of the exercise under check. An error in another function names the line of these too. Below it stand both
    lines, but of a function of `others`, which other exercises check, the line that led to it alone.
    """
    text = cause_text(error)
    places = _places(error, path)
    if not places and (called := re.match(r"TypeError: (\w+)\(\) (takes|missing|got) ", text)):
        places = [(node.lineno, node.name) for node in _definitions(path) if node.name == called[1]]
    if not places:
        advice = advice_on(text)
        if re.match(r"TypeError: '(?!NoneType')\w+' object is not callable$", text):
            advice = "A function is expected: return the function without calling it."
        return f"{text} (in the check, on what your code returned){advice and f'. {advice}'}"
    line, function = places[-1]
    advice = advice_on(text, source_line(path, line))
    text = (f"{with_period(text)} {advice}" if advice else text) + called_none_text(error)
    own = _own_place(places, functions)
    if not own:
        return with_source_lines(f"{path.name}, line {line}: {text}", path)
    text = f"{path.name}, line {own[0]}, in {own[1]}, which called line {line}, in {function}: {text}"
    return text + numbered_lines(path, [own[0], *[line] * (function not in others)])


def _places(error: BaseException, path: Path) -> list[tuple[int, str]]:
    """Returns the lines of the file through which the error went, each with its function, the innermost last."""
    frames = [(line, frame.f_code) for frame, line in traceback.walk_tb(error.__traceback__)]
    return [(line, code.co_qualname.split(".")[0]) for line, code in frames if code.co_filename == str(path)]


def _own_place(places: list[tuple[int, str]], functions: Collection[str]) -> tuple[int, str] | None:
    """Returns the last place in one of `functions`, if it led to a place in another function."""
    if not places or places[-1][1] in functions:
        return None
    return next((place for place in reversed(places) if place[1] in functions), None)


def caller_text(error: BaseException, path: Path, functions: Collection[str]) -> str:
    """Returns 'called from line 40, in overlap' for an error in the file, but outside of `functions`; otherwise ''."""
    own = _own_place(_places(error, path), functions)
    return f"{CALLED_FROM} line {own[0]}, in {own[1]}" if own else ""


def called_none_text(error: BaseException) -> str:
    """Returns a sentence, after a period, if torch called None in place of a function of the learner; otherwise ''."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    if NONE_CALLED not in str(error) or not files or "/torch/" not in files[-1]:
        return ""
    return (
        ". torch called None: a function that the code gave to torch, such as a hook, is None. Is a `return` missing "
        "in the function that makes it?"
    )


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
    first, *more = [line.strip() for line in plain.splitlines() if line.strip()] or [""]
    if first.endswith((":", ",")) and more:  # an announcement, as of load_state_dict; or a list that goes on
        first = f"{first} {more[0][:SOURCE_COLUMNS]}"
    return ": ".join(filter(None, [type(error).__name__, first]))
