"""User functions: functions from a file of the user's that replace a program's own."""

import inspect
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rankzero.errors import UserError


def load_user_functions(path: Path, replaceable: Mapping[str, Callable[..., Any]], folder: Path) -> dict[str, Any]:
    """Returns those of the `replaceable` functions that a Python file defines, by name.

    A relative `path` that does not exist is also looked for in `folder`. UserError where there is no such file, where
    it does not run, and where it defines none of the functions or one with other parameters.
    """
    names = replaceable.keys()
    script = next((file for file in (path, folder / path) if file.is_file()), None)
    if script is None:
        raise UserError(f"script {path} does not exist: name a Python file that defines {' or '.join(names)}.")
    try:
        defined = runpy.run_path(str(script))
    except (Exception, SystemExit) as error:
        raise UserError(f"script {path} cannot be used ({type(error).__name__}: {error}): fix it first.") from None
    if not defined.keys() & set(names):
        raise UserError(f"script {path} defines neither {' nor '.join(names)}: it would change nothing.")
    functions = {name: defined[name] for name in names if name in defined}
    for name, function in functions.items():
        _check_call(f"script {path}", name, function, list(inspect.signature(replaceable[name]).parameters))
    return functions


def _check_call(script: str, name: str, function: Any, parameters: list[str]) -> None:
    """UserError where `function` cannot be called with as many arguments as there are `parameters`."""
    if not callable(function):
        raise UserError(
            f"{script}: {name} is no function but {function!r}: define one with parameters {', '.join(parameters)}."
        )
    signature = inspect.signature(function)
    try:
        signature.bind(*parameters)
    except TypeError:
        raise UserError(
            f"{script}: {name}({', '.join(signature.parameters)}) cannot be called as it is here, as "
            f"{name}({', '.join(parameters)}): fix it first."
        ) from None
