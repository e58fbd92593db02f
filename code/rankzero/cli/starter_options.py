"""Starter options: a mistyped option of a starter, refused before the starter loads torch."""

import difflib
import re
from collections.abc import Sequence

from rankzero.curriculum import ROOT, Lab
from rankzero.errors import UserError

RUNS = ROOT / "code" / "rankzero" / "learn" / "runs"
SHARED = (RUNS / "options.py", RUNS / "training_options.py")
OPTION = re.compile(r"""["'](--[a-z][a-z0-9-]*)["']""")


def check_options(lab: Lab, arguments: Sequence[str]) -> None:
    """UserError for an option that stands nowhere in the sources of the starter's options, in full or shortened."""
    known = {"--help"}
    for file in (lab.starter, *SHARED):
        known |= set(OPTION.findall(file.read_text(encoding="utf-8")))
    known |= {f"--no-{name.removeprefix('--')}" for name in known}  # argparse makes these of an option of two values
    for argument in arguments:
        name = argument.partition("=")[0]
        if name.startswith("--") and len(name) > 2 and not any(other.startswith(name) for other in known):
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise UserError(
                f"lab {lab.number} has no option {name}: {meant}`rankzero run {lab.number} --help` lists all."
            )
