"""Functions from a file of the user's, in the place of a program's own."""

import inspect
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rankzero.errors import UserError


def read_script(path: Path, instead_of: Mapping[str, Callable[..., Any]], beside: Path) -> dict[str, Any]:
    """What a Python file defines of these functions. A file that is not found may also stand in the folder `beside`.

    UserError where there is no such file, it does not run, or it defines none of them, or with other parameters.
    """
    names = instead_of.keys()
    found = next((file for file in (path, beside / path) if file.is_file()), None)
    if found is None:
        raise UserError(f"script {path} does not exist: name a Python file that defines {' or '.join(names)}.")
    try:
        defined = runpy.run_path(str(found))
    except (Exception, SystemExit) as error:  # whatever it is, the file is no use
        raise UserError(f"script {path} cannot be used ({type(error).__name__}: {error}): mend it first.") from None
    if not defined.keys() & set(names):
        raise UserError(f"script {path} defines neither {' nor '.join(names)}: it would change nothing.")
    functions = {name: defined[name] for name in names if name in defined}
    for name, function in functions.items():
        _check_call(f"script {path}: {name}", function, list(inspect.signature(instead_of[name]).parameters))
    return functions


def _check_call(what: str, function: Any, parameters: list[str]) -> None:
    """UserError where `function` cannot be called with as many arguments as there are `parameters`."""
    if not callable(function):
        raise UserError(f"{what} is no function but {function!r}: define one with parameters {', '.join(parameters)}.")
    signature = inspect.signature(function)
    try:
        signature.bind(*parameters)
    except TypeError:
        name = what.split()[-1]
        theirs, ours = ", ".join(signature.parameters), ", ".join(parameters)
        raise UserError(f"{what}({theirs}) cannot be called as it is here, as {name}({ours}): mend it first.") from None
