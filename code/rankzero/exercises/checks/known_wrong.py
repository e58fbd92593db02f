"""Known-wrong solutions: changes to a lab's reference that its checks must notice, and the complete source of each.

`solutions/lab-NN-name/known_wrong.py` holds KNOWN_WRONG, solutions with the misconception behind each, in the order of
the exercises and their checks, and HURRIED, changes that must not get all points: {exercise: {name: change}}.

A change is what `git diff` prints for an edit of the exercise's functions, with just enough lines to identify it:
lines that begin with "-" are replaced by lines that begin with "+", and lines that begin with a space stay::

    KnownWrong(
        "clear_at_the_end",
        fails=("train_step/stale",),  # exactly these checks
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation=\"\"\"The gradients are cleared after the update, not before the backward pass. ...\"\"\",
        change=\"\"\"
    -    optimizer.zero_grad(set_to_none=True)
    @@
         optimizer.step()
    +    optimizer.zero_grad(set_to_none=True)
    \"\"\",
    )
"""

import ast
import functools
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.probes.loader import load


@dataclass(frozen=True)
class KnownWrong:
    """A plausible wrong solution to one exercise, and the misconception that leads to it."""

    name: str
    fails: tuple[str, ...]  # the checks that fail, all of one exercise; those that require one of them are skipped
    read: str  # the page, with its heading, that explains it
    explanation: str  # of the misconception; true of any code with this behavior
    change: str = ""  # to the exercise's functions
    definitions: str = ""  # imports, constants and whole functions; these replace the reference's of the same name
    exercise: str = ""  # the exercise's name; if empty, the part of `fails` before the slash

    def __post_init__(self) -> None:
        if not self.exercise:
            object.__setattr__(self, "exercise", self.fails[0].split("/")[0])

    @property
    def text(self) -> str:
        """Returns the explanation on one line."""
        return " ".join(self.explanation.split())


@functools.cache
def known_wrong(lab: Lab) -> Mapping[str, KnownWrong]:
    """Returns the lab's known-wrong solutions by name."""
    return {wrong.name: wrong for wrong in load(lab.known_wrong).KNOWN_WRONG}


@functools.cache
def wrong_source(lab: Lab, wrong: KnownWrong) -> str:
    """Returns the complete source of a known-wrong solution. UserError for a change that does not fit the reference."""
    where = f"{lab.known_wrong}, {wrong.name}"
    return changed_reference(lab, wrong.exercise, wrong.change, where, definitions=wrong.definitions)


def wrong_file(lab: Lab, wrong: KnownWrong) -> Path:
    """Returns a file with the complete source; see `source_file`."""
    return source_file(lab, wrong.name, wrong_source(lab, wrong))


def source_file(lab: Lab, name: str, source: str) -> Path:
    """Returns a file with the source of that name, in a temporary folder that is removed when this process ends."""
    with _writing:
        file = Path(_folder().name, lab.slug, name, lab.reference.name)
        if not file.exists():
            file.parent.mkdir(parents=True)
            file.write_text(source, encoding="utf-8")
    return file


_writing = threading.Lock()  # threads of a batch grader share these files


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="rankzero-known-wrong-")


def changed_reference(lab: Lab, exercise: str, change: str, where: str, *, definitions: str = "") -> str:
    """Returns the reference with `change` made in the exercise's functions, and `definitions` after the last of them.

    UserError, which begins with `where`, if a hunk's old lines do not occur exactly once in these functions.
    """
    reference = lab.reference.read_text(encoding="utf-8")
    lines, functions = reference.splitlines(), _functions(lab)[exercise]
    places: list[tuple[int, list[str], list[str]]] = []
    if definitions:
        places.append((functions[-1].stop, [], ["", "", *definitions.strip().splitlines()]))
    for old, new in _hunks(change):
        starts = [
            start
            for function in functions
            for start in range(function.start, function.stop - len(old) + 1)
            if lines[start : start + len(old)] == old
        ]
        if len(starts) != 1:
            text = "\n".join(old)
            raise UserError(f"{where}: this text occurs {len(starts)} times, not once, in {exercise}:\n{text}")
        places.append((starts[0], old, new))
    for start, old, new in sorted(places, reverse=True):
        lines[start : start + len(old)] = new
    changed = "\n".join(lines) + "\n"
    if changed == reference:
        raise UserError(f"{where}: nothing is changed.")
    return changed


@functools.cache
def _functions(lab: Lab) -> Mapping[str, list[range]]:
    """Returns the lines of each exercise's functions in the reference, counted from 0."""
    tree = ast.parse(lab.reference.read_text(encoding="utf-8"))
    lines = {
        node.name: range(node.lineno - 1, node.end_lineno or node.lineno)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    return {
        exercise.name: [lines[name] for name in exercise.functions if name in lines] for exercise in exercises_of(lab)
    }


def _hunks(change: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the old and the new lines of each hunk."""
    for hunk in re.split(r"^@@.*\n", change.strip("\n"), flags=re.MULTILINE):
        lines = [line or " " for line in hunk.splitlines()]  # editors strip the space of an empty line
        if lines:
            yield [line[1:] for line in lines if line[0] != "+"], [line[1:] for line in lines if line[0] != "-"]
