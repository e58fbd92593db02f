"""Loader: a learner's file as a module, loaded again at each call, and errors that name its file and line."""

import codecs
import re
import sys
import traceback
from bdb import BdbQuit
from pathlib import Path
from types import ModuleType

from rankzero.errors import UserError

MAX_TEXT = 2000  # characters of an error's text that are read


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
        line = getattr(error, "lineno", None) or 1
        text = getattr(error, "msg", "") or str(error) or type(error).__name__
        raise LoadError(_with_period(f"{path.name}, line {line}: {text}")) from None
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        raise LoadError(_with_period(error_text(error, path))) from None
    return module


def _with_period(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def error_text(error: BaseException, path: Path) -> str:
    """Returns the error and its line in `path`: 'exercises.py, line 12: ZeroDivisionError: division by zero'."""
    if isinstance(error, SystemExit):
        text = "called sys.exit()"
    elif isinstance(error, BdbQuit):
        text = "a breakpoint() is left here"
    elif isinstance(error, EOFError) and str(error) == "EOF when reading a line":
        text = "input() waits for somebody to type, and nobody is there"
    else:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error)[:MAX_TEXT])  # torch prints some words in bold
        text = ": ".join([type(error).__name__, *plain.strip().splitlines()[:1]])
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path.name}, line {lines[-1]}: {text}" if lines else text
