"""Argument notes: what a learner's functions did to their arguments, or that they returned None, to explain a failure.

A note is 'function argument kind', with a dash for the argument of a function that returned None. A note that the
reference's code gives as well is part of the contract.
"""

import functools
import inspect
import re
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from rankzero.exercises.probes.loader import NONE_CALLED

MOST_BYTES = 2**20  # of an array that is compared
SENTENCES = {
    "changed": "{0} changed its argument `{1}`, which is the caller's.",
    "nothing": "{0} returned None: is a `return` missing?",
    "no function": "{0} returned None instead of a function: is a `return` missing, or is the function called where it "
    "is returned, as in `return f()`?",
    "exhausted": "{0} read the iterator `{1}` again after its end: it gives its items once, so keep list({1}) first.",
}
NOTES: set[str] = set()  # of the running probe, in its process and in each rank


class _Once(Iterator[Any]):
    """Gives the items of a generator, and calls `note` if it is asked again after the last."""

    def __init__(self, items: Iterator[Any], note: Callable[[], None]) -> None:
        self._items, self._note, self._ended = items, note, False

    def __next__(self) -> Any:
        if self._ended:
            self._note()
        try:
            return next(self._items)
        except StopIteration:
            self._ended = True
            raise


_Once.__name__ = _Once.__qualname__ = "generator"  # the type that Python's errors name


def _state(value: Any) -> Any:
    """Returns what differs after a change: a tensor's version and dtype, an array's bytes, a container's items."""
    from rankzero.exercises.probes.untrusted_values import is_tensor  # imports torch; the checking process has none

    if is_tensor(value):
        return None if value.is_inference() else (value._version, str(value.dtype))  # .data changes no version
    if type(value) is np.ndarray and value.dtype != object and value.nbytes <= MOST_BYTES:
        return value.tobytes()
    if type(value) in (list, tuple):
        return [(id(item), _state(item) if is_tensor(item) else None) for item in value]
    return [(key, id(item)) for key, item in value.items()] if type(value) is dict else None


def _watched(function: FunctionType, generators: bool) -> Callable[..., Any]:
    signature = inspect.signature(function)
    returns_none = signature.return_annotation in (None, "None")
    running = threading.local()

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if getattr(running, "is_inside", False):
            return function(*args, **kwargs)  # a recursion: its caller is the function itself
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # raises with the function's name
        for name, value in bound.arguments.items():
            if generators and inspect.isgenerator(value):
                note = f"{function.__name__} {name} exhausted"
                bound.arguments[name] = _Once(value, functools.partial(NOTES.add, note))
        before = [(name, value, _state(value)) for name, value in bound.arguments.items()]
        running.is_inside = True
        if returns_none:
            NOTES.add(f"{function.__name__} - nothing")  # also if it raises: a note of the reference is no mistake
        try:
            value = function(*bound.args, **bound.kwargs)
            if value is None:
                NOTES.add(f"{function.__name__} - nothing")
            return value
        finally:
            running.is_inside = False
            changed = {f"{function.__name__} {name} changed" for name, value, state in before if _state(value) != state}
            NOTES.update(changed)

    return wrapper


def watch_arguments(learner: ModuleType, names: Sequence[str], *, generators: bool = True) -> None:
    """Replaces the functions of these names in the module by functions that call them and add to NOTES.

    With `generators`, a generator becomes an iterator that notes when it is read again after its end. For grading it
    stays as it is, because code could tell the two apart.
    """
    for name in names:
        if isinstance(function := getattr(learner, name, None), FunctionType):
            setattr(learner, name, _watched(function, generators))


def nothing_text(error: BaseException) -> str:
    """Returns a sentence, after a period, about a function that returned None, if the check's own code met the None."""
    frames = traceback.extract_tb(error.__traceback__)
    if "NoneType" not in str(error) or any(frame.filename == __file__ for frame in frames):
        return ""
    return "".join(
        f".{note_text(frozenset({note}), str(error))}" for note in sorted(NOTES)[:1] if note.endswith(" nothing")
    )


def note_text(notes: frozenset[str], error: str = "") -> str:
    """Returns sentences about notes, each after a space. Whatever has another form than a note is left out.

    `error` is the error that the notes are to explain.
    """
    found = (re.fullmatch(r"(\w{1,40}) (\w{1,40}|-) (\w+)", note, re.ASCII) for note in sorted(notes)[:3])
    kinds = {"nothing": "no function"} if NONE_CALLED in error else {}
    sentences = {kind: SENTENCES[kinds.get(kind, kind)] for kind in SENTENCES}
    return "".join(
        f" {sentences[match[3]].format(*match.groups())}" for match in found if match and match[3] in sentences
    )
