"""Functions from a file of the user's, in the place of a program's own."""

import runpy
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rankzero.learn.errors import UserError


def read_script(path: Path, names: Collection[str], beside: Path) -> dict[str, Any]:
    """What a Python file defines of these names. A file that is not found may also stand in the folder `beside`.

    UserError where there is no such file, it does not run, or it defines none of them.
    """
    found = next((file for file in (path, beside / path) if file.is_file()), None)
    if found is None:
        raise UserError(f"script {path} does not exist: name a Python file that defines {' or '.join(names)}.")
    try:
        defined = runpy.run_path(str(found))
    except Exception as error:  # whatever it is, the file is no use
        raise UserError(f"script {path} cannot be used ({type(error).__name__}: {error}): mend it first.") from None
    if not defined.keys() & set(names):
        raise UserError(f"script {path} defines neither {' nor '.join(names)}: it would change nothing.")
    return {name: defined[name] for name in names if name in defined}
