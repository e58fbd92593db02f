"""Loads a learner's file by its path, afresh each time, and says where it breaks."""

import codecs
import re
import sys
import traceback
from bdb import BdbQuit
from pathlib import Path
from types import ModuleType

from rankzero.errors import UserError

MOST_TEXT = 2000  # characters of an error's that are looked at


class LoadError(UserError):
    """The file cannot be used; the text names the line and the cause."""


def load(path: Path) -> ModuleType:
    """The module in `path`.

    LoadError for a missing file, a syntax error, or anything that its top level raises (sys.exit() included).
    """
    module = ModuleType("exercises")
    sys.modules["exercises"] = module  # dataclasses and the like look a class's module up here
    module.__file__ = str(path)
    _execute(path, module)
    return module


def _execute(path: Path, module: ModuleType) -> None:
    try:
        data = path.read_bytes()
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise LoadError(f"{path.name} is saved as UTF-16: save it as UTF-8.")
        code = compile(data, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise LoadError(f"{path} cannot be read ({error.strerror}).") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, said = getattr(error, "lineno", None), getattr(error, "msg", "") or str(error)
        raise LoadError(sentence(f"{path.name}, line {line or 1}: {said or type(error).__name__}")) from None
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        raise LoadError(sentence(describe(error, path))) from None


def sentence(text: str) -> str:
    """The text, ended by a period if nothing ends it."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def describe(error: BaseException, path: Path) -> str:
    """What was raised, and on which line of `path`: 'line 12: ZeroDivisionError: division by zero'."""
    if isinstance(error, SystemExit):
        what = "called sys.exit()"
    elif isinstance(error, BdbQuit):
        what = "a breakpoint() is left here"
    elif isinstance(error, EOFError) and str(error) == "EOF when reading a line":
        what = "input() waits for somebody to type, and nobody is there"
    else:
        text = (
            re.sub(r"\x1b\[[0-9;]*m", "", str(error)[:MOST_TEXT]).strip().splitlines()
        )  # torch makes some of its words bold
        what = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path.name}, line {lines[-1]}: {what}" if lines else what
