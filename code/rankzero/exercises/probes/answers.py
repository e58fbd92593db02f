"""Answers: the values that a probe returns to a judge, plain so that they can come from an untrusted process.

Answers are a dictionary from names to None, bool, int, float, str, lists of these, and NumPy arrays of numbers.
"""

import base64
import io
import json
import math
from typing import Any

import numpy as np

MAX_BYTES = 4 * 2**20  # 20 times the largest answers of any probe
MESSAGE_BYTES = 4 * MAX_BYTES  # of a message that contains answers: JSON writes a character of two bytes as six
MAX_VALUES = 100_000  # 30 times the most of any probe: a list item of 2 bytes in JSON takes 200 bytes of memory
MAX_INT = 2**64  # numbers are compared as floats, which cannot hold a larger int exactly

HANDED = "handed "  # begins the names of answers that are for the next probe, not for a judge

Answers = dict[str, Any]


class AnswerError(ValueError):
    """Bytes that do not decode to answers."""


def encode(answers: Answers) -> bytes:
    """Returns answers as bytes. TypeError for a value that is not plain."""
    return json.dumps({name: _to_json(value) for name, value in answers.items()}).encode()


def decode(data: bytes) -> Answers:
    """Returns the answers in `data`. AnswerError, and no other exception, for malformed bytes: they may be hostile."""
    try:
        if len(data) > MAX_BYTES:
            raise AnswerError(f"{len(data)} bytes of answers are more than {MAX_BYTES}")
        if has_too_many_values(data):
            raise AnswerError(f"more than {MAX_VALUES} answers")
        loaded = json.loads(data)
        if not isinstance(loaded, dict):
            raise AnswerError("the answers are no dictionary")
        return {name: _from_json(value) for name, value in loaded.items()}
    except AnswerError:
        raise
    except Exception as error:  # NumPy's reader alone raises ten kinds
        raise AnswerError(f"the answers cannot be decoded ({type(error).__name__})") from None


def has_too_many_values(data: bytes) -> bool:
    """Returns whether the JSON in `data` may hold more than MAX_VALUES values, each of which takes memory to parse."""
    return data.count(b",") > MAX_VALUES


def _to_json(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return {"npy": base64.b64encode(file.getvalue()).decode()}
    raise TypeError(f"a {type(value).__name__} is no plain answer")


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        data = base64.b64decode(value["npy"], validate=True)
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        if array.dtype.kind not in "biuf":
            raise AnswerError("an array of something other than numbers")
        return array
    if type(value) is int and abs(value) > MAX_INT:
        raise AnswerError("an int of more than 64 bits")
    return value


def equal(answer: Any, other: Any, tolerance: float = 0.0) -> bool:
    """Returns whether two answers agree: exactly, or numbers within `tolerance`, absolute and relative to `other`.

    NaN equals NaN, and a bool or a string never equals a number. Never raises an error, as `answer` may be hostile.
    """
    if isinstance(answer, np.ndarray) and isinstance(other, np.ndarray):
        if answer.shape != other.shape or answer.dtype.kind != other.dtype.kind:
            return False
        return bool(np.allclose(answer, other, rtol=tolerance, atol=tolerance, equal_nan=True))
    if isinstance(answer, list) and isinstance(other, list):
        return len(answer) == len(other) and all(equal(a, b, tolerance) for a, b in zip(answer, other, strict=True))
    if type(answer) in (int, float) and type(other) in (int, float):
        return answer == other or (answer != answer and other != other) or _near(answer, other, tolerance)
    return type(answer) is type(other) and not isinstance(answer, np.ndarray) and bool(answer == other)


def _near(number: float, other: float, tolerance: float) -> bool:
    try:
        return math.isfinite(other) and abs(number - other) <= tolerance * (1 + abs(other))
    except OverflowError:  # an int that no float can hold
        return False


def same_form(answer: Any, other: Any) -> bool:
    """Returns whether two answers have the same types, lengths and shapes, with the same or other values."""
    if isinstance(answer, np.ndarray) and isinstance(other, np.ndarray):
        return answer.shape == other.shape and answer.dtype == other.dtype
    if isinstance(answer, list) and isinstance(other, list):
        return len(answer) == len(other) and all(same_form(a, b) for a, b in zip(answer, other, strict=True))
    return type(answer) is type(other)
