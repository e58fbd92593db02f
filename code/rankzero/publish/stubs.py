"""Stubs: the learner's exercises, generated from the solution with a NotImplementedError between its markers.

The markers are whole lines inside a function or method, `### BEGIN SOLUTION` and `### END SOLUTION`. The stub of a
method names its class, which is the exercise.
"""

import ast
import re
from pathlib import Path

from rankzero.errors import UserError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
LINE_LENGTH = 120  # of ruff, in pyproject.toml


def stub(solution: Path, lab_number: str) -> str:
    """Returns the learner's file as text. UserError for markers that are unclosed, nested or outside a function."""
    source = solution.read_text(encoding="utf-8")
    try:
        functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    except SyntaxError as error:
        raise UserError(f"{solution}, line {error.lineno}: {error.msg}.") from None
    lines: list[str] = []
    opened = 0
    for number, line in enumerate(source.splitlines(), start=1):
        marker = line.strip()
        if marker == BEGIN:
            if opened:
                raise UserError(f"{solution}, line {number}: a second {BEGIN}; the first, on line {opened}, is open.")
            opened = number
            name = next((f.name for f in functions if f.lineno < number <= (f.end_lineno or 0) + 1), None)
            if name is None:
                raise UserError(f"{solution}, line {number}: {BEGIN} is not inside a function.")
            indent = line[: len(line) - len(line.lstrip())]
            message = f'"{name} is not written yet. A hint: rankzero hint {lab_number} {name}"'
            statement = f"{indent}raise NotImplementedError({message})"
            if len(statement) > LINE_LENGTH:  # as ruff formats it
                statement = f"{indent}raise NotImplementedError(\n{indent}    {message}\n{indent})"
            lines.append(statement)
        elif marker == END:
            if not opened:
                raise UserError(f"{solution}, line {number}: {END} without {BEGIN}.")
            opened = 0
        elif "BEGIN SOLUTION" in line or "END SOLUTION" in line:
            raise UserError(f"{solution}, line {number}: a marker must be a line of its own, `{BEGIN}` or `{END}`.")
        elif not opened:
            lines.append(line)
    if opened:
        raise UserError(f"{solution}, line {opened}: {BEGIN} is not closed by {END}.")
    return "\n".join(lines) + "\n"


def answers(solution: Path) -> list[str]:
    """Returns the lines between the markers, stripped, which no generated file may contain."""
    inside = re.findall(f"{BEGIN}(.*?){END}", solution.read_text(encoding="utf-8"), re.DOTALL)
    return [line.strip() for text in inside for line in text.splitlines() if line.strip()]
