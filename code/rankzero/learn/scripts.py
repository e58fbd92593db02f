"""Functions from a file of the user's, in the place of a program's own."""

import runpy
from pathlib import Path
from typing import Any

from rankzero.learn.errors import UserError


def read_script(path: Path, beside: Path) -> dict[str, Any]:
    """What a Python file defines. A name that is not found may also stand in the folder `beside`.

    UserError where there is no such file, or it does not run.
    """
    found = next((file for file in (path, beside / path) if file.is_file()), None)
    if found is None:
        raise UserError(f"script {path} does not exist: name a Python file that defines next_batch or train_step.")
    try:
        return runpy.run_path(str(found))
    except Exception as error:  # whatever it is, the file is no use
        raise UserError(f"script {path} cannot be used ({type(error).__name__}: {error}): mend it first.") from None
