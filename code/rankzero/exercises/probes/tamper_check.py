"""Tamper check: finds functions and classes of torch, NumPy, the library or a probe that a learner's file changed.

A probe that compares with a changed `torch.equal`, or counts with a changed counter, could return any result.
The check stops accidents and simple attempts; code in the same process can defeat it, so `grading` does not rely on it.
"""

import functools
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
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
BY_TORCH = {"torch.manual_seed"}  # wrapped by torch._dynamo at its first import
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement; other classes cannot be changed
_PARTS = (
    *(type, FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType),
    *(classmethod, staticmethod, property, functools.partial, np.ufunc, type(np.allclose)),
)


class TamperCheck:
    """The functions and classes of the watched modules at the time of construction, to compare with later."""

    def __init__(self) -> None:
        watched = sorted(name for name in sys.modules if name in MODULES or name.startswith("rankzero."))
        self._modules = {name: sys.modules[name] for name in watched}
        self._spaces: list[tuple[str, Mapping[str, Any], dict[str, Any], type | None]] = []
        self._codes: list[tuple[FunctionType, CodeType, Any]] = []
        self._seen: set[int] = set()
        for name, module in self._modules.items():
            self.add(name, module)

    def add(self, name: str, module: ModuleType) -> None:
        """Watches this module as well."""
        self._keep(name, vars(module))
        for value in list(vars(module).values()):
            if issubclass(type(value), type) and value.__flags__ & _HEAP and id(value) not in self._seen:
                self._seen.add(id(value))
                self._keep(f"{value.__module__}.{value.__name__}", vars(value), value)

    def _keep(self, name: str, space: Mapping[str, Any], kind: type | None = None) -> None:
        before = {key: value for key, value in space.items() if kind or issubclass(type(value), _PARTS)}
        self._spaces.append((name, space, before, kind))
        functions = [value for value in before.values() if type(value) is FunctionType]
        self._codes += [(function, function.__code__, function.__defaults__) for function in functions]

    def changed(self) -> str:
        """Returns the name of the first changed function, class or module; an empty string if none has changed."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                return name
        for name, now, before, kind in self._spaces:
            for key, value in before.items():
                same = key in now and (now[key] is value or not issubclass(type(value), _PARTS))
                if not same and f"{name}.{key}" not in BY_TORCH:
                    return f"{name}.{key}"
            if kind and len(now) > len(before):
                new = [key for key in now if key not in before and key != "__slotnames__"]  # added by copying
                if hides := [key for key in new if any(key in vars(base) for base in kind.__mro__[1:])]:
                    return f"{name}.{hides[0]}"
        for function, code, defaults in self._codes:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return f"{function.__module__}.{function.__qualname__}"
        return ""
