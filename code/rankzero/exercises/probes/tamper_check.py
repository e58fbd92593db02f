"""Notices when a learner's file changes what is not its own: a function or class of torch, NumPy, the labs, a probe.

A probe that compares with a changed `torch.equal`, or counts with a changed counter, would bring back what the file
wants. This is a fence and no wall: code in the same process can climb it. `grading` does not rely on it for values.
"""

import functools
import sys
from collections.abc import Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

MODULES = {
    *("builtins", "gc", "json", "math", "operator", "os", "pathlib", "pickle", "random", "statistics", "tempfile"),
    *("multiprocessing.connection", "time", "tracemalloc", "unittest.mock"),
    *("numpy", "numpy.linalg", "numpy.random", "numpy.testing"),
    *("torch", "torch.autograd", "torch.autograd.graph", "torch.distributed", "torch.linalg", "torch.nn"),
    *("torch.nn.functional", "torch.nn.utils", "torch.optim", "torch.optim.lr_scheduler", "torch.random"),
    *("torch.testing", "torch.utils._python_dispatch", "torch.utils.flop_counter"),
}
BY_TORCH = {"torch.manual_seed"}  # its compiler wraps this one when it is first imported


class TamperCheck:
    """What there was when this was made, to compare with later."""

    def __init__(self) -> None:
        self._modules = {name: module for name, module in sorted(sys.modules.items()) if _is_watched(name)}
        self._spaces: list[tuple[str, Mapping[str, Any], dict[str, Any], type | None]] = []
        self._codes: list[tuple[FunctionType, CodeType, Any]] = []
        self._seen: set[int] = set()
        for name, module in self._modules.items():
            self.add(name, module)

    def add(self, name: str, module: ModuleType) -> None:
        """Watches this module too."""
        self._keep(name, vars(module))
        for value in list(vars(module).values()):
            if issubclass(type(value), type) and value.__flags__ & _HEAP and id(value) not in self._seen:
                self._seen.add(id(value))
                self._keep(f"{value.__module__}.{value.__name__}", vars(value), value)

    def _keep(self, name: str, space: Mapping[str, Any], kind: type | None = None) -> None:
        before = {key: value for key, value in space.items() if kind or issubclass(type(value), _PARTS)}
        self._spaces.append((name, space, before, kind))
        functions = [one for one in before.values() if type(one) is FunctionType]
        self._codes += [(one, one.__code__, one.__defaults__) for one in functions]

    def changed(self) -> str:
        """The name of something that is no longer what it was; empty if all is."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                return name
        for name, now, before, kind in self._spaces:
            for key, value in before.items():
                same = key in now and (now[key] is value or not issubclass(type(value), _PARTS))
                if not same and f"{name}.{key}" not in BY_TORCH:
                    return f"{name}.{key}"
            if kind and len(now) > len(before):
                new = [key for key in now if key not in before and key != "__slotnames__"]  # which copying it adds
                if hides := [key for key in new if any(key in vars(one) for one in kind.__mro__[1:])]:
                    return f"{name}.{hides[0]}"
        for function, code, defaults in self._codes:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return f"{function.__module__}.{function.__qualname__}"
        return ""


_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement; others cannot be changed
_PARTS = (
    *(type, FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType),
    *(classmethod, staticmethod, property, functools.partial, np.ufunc, type(np.allclose)),
)


def _is_watched(name: str) -> bool:
    return name in MODULES or name.startswith("rankzero.")
