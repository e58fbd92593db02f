"""Comparison: the learner's functions of a passed exercise beside the solution's, as a diff with reasons.

The reason for a line of the solution is a known mistake: what goes wrong when that line is changed.
"""

import ast
import difflib
import re
from itertools import groupby
from pathlib import Path

from rich.text import Text

from rankzero.curriculum import Lab, path_from_here
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise
from rankzero.exercises.checks.known_wrong import known_wrong
from rankzero.exercises.study import progress
from rankzero.exercises.study.text_lines import paragraph

STYLES = {"-": "red", "+": "green", " ": ""}


def require_passed(lab: Lab, exercise: Exercise) -> None:
    """UserError if the exercise has never passed."""
    points = progress.of_lab(lab).points.get(exercise.name, 0)
    if points < exercise.points:
        raise UserError(
            f"{exercise.name} has {points} of {exercise.points} points: once it passes "
            f"(`rankzero check {lab.number} {exercise.name}`), this command shows the solution beside yours."
        )


def comparison_lines(lab: Lab, exercise: Exercise, file: Path, width: int) -> list[Text]:
    """Returns the diff from the learner's functions to the solution's, without docstrings. UserError if one is gone.

    A difference in a line that a known mistake changes is followed by that mistake. A line of code that is wider than
    the terminal goes on in the next row, below its own beginning.
    """
    lines = paragraph(f"{exercise.name}: - yours, {path_from_here(file)}", width, style="bold")
    lines += paragraph(
        f"{' ' * len(exercise.name)}  + the solution, {path_from_here(lab.reference)}", width, style="bold"
    )
    mistakes = _first_sentences(lab, exercise)
    for name in exercise.functions:
        lines.append(Text())
        for same, run in groupby(_diff(_code(file, name), _code(lab.reference, name)), lambda line: line[0] == " "):
            difference = list(run)
            for line in difference:
                lines += _rows(line, width)
            if not same and (reason := _reason(difference, mistakes)):
                lines += [Text(f"  | {row}", style="dim") for row in paragraph(reason, width - 4)]
    return lines


def _first_sentences(lab: Lab, exercise: Exercise) -> dict[str, str]:
    """Returns, for each line of the solution that a known mistake changes, the first sentence about the mistake."""
    sentences: dict[str, str] = {}
    for wrong in known_wrong(lab).values():
        if wrong.exercise == exercise.name:
            sentence = re.split(r"(?<=[a-z)\d]\.) (?=[A-Z])", wrong.text, maxsplit=1)[0]
            for line in wrong.change.splitlines():
                if line.startswith("-"):
                    sentences.setdefault(line[1:].strip(), sentence)
    return sentences


def _reason(difference: list[str], mistakes: dict[str, str]) -> str:
    """Returns what goes wrong if a line of the solution in this difference is changed, '' if that is not known."""
    avoided = (mistakes.get(line[1:].strip()) for line in difference if line[0] == "+")
    sentence = next(filter(None, avoided), "")
    return f"A common mistake in this place, which both avoid: {sentence}" if sentence else ""


def _code(file: Path, function: str) -> list[str]:
    """Returns the lines of a function without its docstring and without the markers of a solution."""
    try:
        source = file.read_bytes()
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{file} cannot be read ({error}): make it pass its check first.") from None
    text = source.decode("utf-8-sig").splitlines()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == function:
            first = node.body[0]
            has_text = ast.get_docstring(node, clean=False) is not None and len(node.body) > 1
            docstring = range(first.lineno, (first.end_lineno or first.lineno) + 1) if has_text else range(0)
            numbers = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            kept = [text[number - 1].rstrip() for number in numbers if number not in docstring]
            return [line for line in kept if not line.strip().startswith("### ")]
    raise UserError(f"{function} is not a function of {file}: put its `def` line back to compare it.")


def _diff(yours: list[str], solution: list[str]) -> list[str]:
    """Returns all lines, each after its mark: '-' for yours, '+' for the solution's, ' ' for both."""
    if yours == solution:
        return [f"  {yours[0]}", "  Your code is the solution, letter by letter."]
    return [line for line in difflib.ndiff(yours, solution) if not line.startswith("?")]


def _rows(line: str, width: int) -> list[Text]:
    mark = line[:1]
    indent = min(len(line) - len(line[2:].lstrip()) + 2, width // 2)
    rows = []
    while len(line) > width:
        space = line.rfind(" ", indent + 1, width + 1)
        end = space if space > 0 else width
        rows.append(Text(line[:end], style=STYLES.get(mark, "")))
        comment = "# " if "# " in line[:end] else ""
        line = f"{mark}{' ' * (indent - 1)}{comment}{line[end:].lstrip()}"
    return [*rows, Text(line, style=STYLES.get(mark, ""))]
