"""Notebook predictions: the numbers that a student wrote into a notebook, read as text. No cell is run.

A prediction is a line `name = number  # predict: unit` of a code cell; publish/notebooks.py gives it out as None.
"""

import ast
import json
import math
import operator
import re
from dataclasses import dataclass

MAX_BYTES = 8 * 2**20  # of a notebook; the labs' notebooks with all their plots have a tenth of that
_PREDICTION = re.compile(r"^(?P<name>[A-Za-z_]\w{0,60}) = (?P<value>.{0,200}?)\s*# predict: (?P<unit>.{0,60})$", re.M)
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass(frozen=True)
class Prediction:
    """One prediction; `value` is None if nothing was written, or no number."""

    unit: str
    value: float | None


def read_notebook(data: bytes) -> dict[str, Prediction]:
    """Returns the predictions of a notebook by name. ValueError, with a reason, for anything that is no notebook."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"has {len(data):,} bytes; the limit is {MAX_BYTES:,}")
    try:
        notebook = json.loads(data)
        cells = notebook["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        code = "\n".join(source if isinstance(source, str) else "".join(source) for source in sources)
    except (ValueError, RecursionError, MemoryError, TypeError, KeyError):
        raise ValueError("is not a notebook in Jupyter's format") from None
    return read_predictions(code)


def read_predictions(code: str) -> dict[str, Prediction]:
    """Returns the predictions in Python code by name."""
    return {
        match["name"]: Prediction(match["unit"].strip(), _number(match["value"]))
        for match in _PREDICTION.finditer(code)
    }


def _number(text: str) -> float | None:
    """Returns the number that a literal, or a sum or product of literals, has; None for everything else."""
    try:
        value = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError):
        return None
    return value if math.isfinite(value) else None


def _value(node: ast.AST) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and (function := _OPERATORS.get(type(node.op))):
        return float(function(_value(node.left), _value(node.right)))
    raise ValueError


def unusable_notebook(data: bytes) -> str:
    """Returns why a notebook's predictions cannot be read, or ''."""
    try:
        read_notebook(data)
    except ValueError as error:
        return str(error)
    return ""
