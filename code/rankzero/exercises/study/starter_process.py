"""Starter process: a lab's starter, run with the learner's functions in place of some of its own.

`rankzero run NN --mine` starts this module through quiet_start.py as a process, with the lab's number, the learner's
file and the starter's options as its arguments. The lab's `mine.py` says which functions are replaced.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from rankzero.curriculum import Lab, find_lab
from rankzero.errors import UserError
from rankzero.exercises.probes.loader import error_text, load


def read_adapter(lab: Lab) -> ModuleType:
    """Returns the lab's `mine.py` as a module. UserError if the lab has none."""
    if not lab.mine.is_file():
        raise UserError(
            f"lab {lab.number} has no run with your functions, because its starter uses none of them: leave --mine "
            f"out, and check them with `rankzero check {lab.number}`."
        )
    module = load(lab.mine)
    sys.modules[f"adapter_of_lab_{lab.number}"] = module  # ranks get functions of a listed module by value
    module.__name__ = f"adapter_of_lab_{lab.number}"
    return module


def replacements(lab: Lab, file: Path) -> dict[str, Any]:
    """Returns what replaces functions of the starter, by name, made from the learner's `file`.

    UserError for a name that the starter lacks.
    """
    starter = lab.import_starter()
    functions: dict[str, Any] = read_adapter(lab).replacements(starter, load(file))
    for name in functions:
        if not hasattr(starter, name):
            raise UserError(f"{lab.mine}: {lab.starter.name} has no {name} to replace: correct the name.")
    return functions


def main() -> None:
    number, file, *arguments = sys.argv[1:]
    lab = find_lab(number)
    sys.argv[0] = str(lab.starter)  # the name in the starter's messages
    try:
        functions, starter = replacements(lab, Path(file)), lab.import_starter()
        vars(starter).update(functions)
        sys.exit(starter.main(arguments))
    except (UserError, NotImplementedError) as error:
        sys.exit(f"rankzero: {error}")
    except Exception as error:
        sys.exit(f"rankzero: your functions ended the run: {error_text(error, Path(file))}")


if __name__ == "__main__":
    main()
