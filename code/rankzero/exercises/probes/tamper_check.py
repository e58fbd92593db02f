"""Tamper check: finds functions, classes and settings of torch, NumPy, the library or a probe that a file changed.

A probe that compares with a changed `torch.equal`, or counts with a changed counter, could return any result. Code in
the same process could change the check, too. So what is compared lies in tuples, made before the learner's file is
loaded, and a running function compares it by functions of C alone: see `Seal`. Code that puts a change back in time, or
writes memory, still escapes, so `grading` does not rely on this check.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from operator import call
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

MODULES = {
    *("builtins", "contextlib", "copy", "functools", "gc", "itertools", "json", "math", "operator", "os", "pathlib"),
    *("pickle", "random", "statistics", "struct", "tempfile", "time", "tracemalloc", "unittest.mock"),
    *("multiprocessing.connection", "numpy", "numpy.linalg", "numpy.random", "numpy.testing"),
    *("torch", "torch._C._nn", "torch._tensor", "torch.amp.autocast_mode", "torch.autograd"),
    *("torch.autograd.function", "torch.autograd.grad_mode", "torch.autograd.graph", "torch.distributed"),
    *("torch.functional", "torch.linalg", "torch.nn", "torch.nn.functional"),
    *("torch.nn.init", "torch.nn.modules.module", "torch.nn.parameter", "torch.nn.utils", "torch.optim"),
    *("torch.optim.lr_scheduler", "torch.optim.optimizer", "torch.overrides", "torch.random", "torch.testing"),
    *("torch.utils._python_dispatch", "torch.utils.flop_counter"),
}
BY_TORCH = {"torch.manual_seed"}  # wrapped by torch._dynamo at its first import
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement; other classes cannot be changed
_PARTS = (
    *(type, FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType),
    *(classmethod, staticmethod, property, functools.partial, np.ufunc, type(np.allclose)),
)
SETTING = "the setting of "

# (getters, spaces, keys, values, functions, results): `call(getter, space, key)` is the value, and `call(function)`
# equals the result. A frame that runs already compares them by all, map, operator.is_ and operator.call, bound before.
Seal = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]


class TamperCheck:
    """The functions and classes of the watched modules at the time of construction, to compare with later."""

    def __init__(self) -> None:
        watched = sorted(name for name in sys.modules if name in MODULES or name.startswith("rankzero."))
        self._places: list[tuple[str, Any, Any, Any, Any]] = []  # name, getter, space, key, value
        self._classes: list[tuple[str, Mapping[str, Any], set[str], type]] = []
        self._seen: set[int] = set()
        self._seal: Seal | None = None
        for name in watched:
            self._watch(name, dict.get, sys.modules, name)
            self.add(name, sys.modules[name])
        for name, function, argument in _settings():
            self._watch(SETTING + name, call, function, argument)
        self._function_names, self._functions = zip(*_settings_without_argument().items(), strict=True)
        self._results = tuple(map(call, self._functions))

    def add(self, name: str, module: ModuleType) -> None:
        """Watches this module as well."""
        self._seal = None
        self._watch(name, type.__call__, type, module)
        self._keep(name, vars(module))
        for value in list(vars(module).values()):
            if issubclass(type(value), type) and value.__flags__ & _HEAP and id(value) not in self._seen:
                self._seen.add(id(value))
                class_name = f"{value.__module__}.{value.__name__}"
                self._watch(class_name, type.__call__, type, value)
                self._watch(class_name, getattr, value, "__bases__")
                self._keep(class_name, vars(value), value)

    def watch_value(self, name: str, module: ModuleType, key: str) -> None:
        """Watches a variable of a module as well."""
        self._seal = None
        self._watch(name, dict.get, vars(module), key)

    def _watch(self, name: str, getter: Any, space: Any, key: Any) -> None:
        self._places.append((name, getter, space, key, call(getter, space, key)))

    def _keep(self, name: str, space: Mapping[str, Any], kind: type | None = None) -> None:
        getter = MappingProxyType.get if kind else dict.get
        for key, value in list(space.items()):
            if issubclass(type(value), _PARTS) and f"{name}.{key}" not in BY_TORCH:
                self._watch(f"{name}.{key}", getter, space, key)
                for function in _functions_in(value):
                    self._keep_function(f"{name}.{key}", function)
        if kind:
            self._classes.append((name, space, set(space), kind))

    def _keep_function(self, name: str, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        for key in ("__code__", "__defaults__", "__kwdefaults__"):
            self._watch(name, getattr, function, key)
        for key in function.__kwdefaults__ or ():
            self._watch(name, dict.get, function.__kwdefaults__, key)
        for cell in function.__closure__ or ():
            if _is_filled(cell) and issubclass(type(cell.cell_contents), _PARTS):
                self._watch(name, getattr, cell, "cell_contents")

    def seal(self) -> Seal:
        """Returns everything to compare, in tuples, which no code can change; see `Seal`."""
        if self._seal is None:
            _, getters, spaces, keys, values = zip(*self._places, strict=True)
            self._seal = (getters, spaces, keys, values, self._functions, self._results)
        return self._seal

    def changed(self) -> str:
        """Returns the name of the first changed function, class, module or setting; an empty string if none has."""
        for name, function, result in zip(self._function_names, self._functions, self._results, strict=True):
            if function() != result:
                return name
        for name, getter, space, key, value in self._places:
            if call(getter, space, key) is not value:
                return name
        return self.hidden()

    def hidden(self) -> str:
        """Returns the name of the first method that a new method of a subclass hides; an empty string if there is none.

        A seal cannot tell it from the names that torch and Python add to classes themselves.
        """
        for name, now, before, kind in self._classes:
            if len(now) == len(before):
                continue
            new = [key for key in now if key not in before and key != "__slotnames__"]  # added by copying
            if hides := [key for key in new if any(key in vars(base) for base in kind.__mro__[1:])]:
                return f"{name}.{hides[0]}"
        return ""


def tamper_text(file: str, changed: str) -> str:
    """Returns the error for a file that changed this; an empty string stands for a change that hides its name."""
    if changed.startswith(SETTING):
        return f"{file} changes {changed}: put it back before the function returns"
    name = changed or "a function of torch or of the probes"
    return f"{file} changes {name}, which it does not define: use it unchanged, or write a new function"


def _settings() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """Yields settings of the process that change what probes compute: a function of C, and its argument."""
    import torch
    import torch.nn.modules.module

    yield "autocast on the CPU", torch.is_autocast_enabled, "cpu"
    yield "hooks on saved tensors", torch._C._autograd._top_saved_tensors_default_hooks, False
    for module in (torch.nn.modules.module, sys.modules["torch.optim.optimizer"]):
        for name, hooks in vars(module).items():
            if name.startswith("_global_") and isinstance(hooks, dict):
                yield name.strip("_").replace("_", " "), len, hooks


def _settings_without_argument() -> Mapping[str, Callable[[], Any]]:
    """Returns more settings: functions of C by name."""
    import torch

    return {
        f"{SETTING}torch's default dtype": torch.get_default_dtype,
        f"{SETTING}torch's anomaly mode": torch.is_anomaly_enabled,
        f"{SETTING}torch's inference mode": torch.is_inference_mode_enabled,
        f"{SETTING}torch's default device or function mode": torch._C._len_torch_function_stack,
        f"{SETTING}torch's dispatch mode": torch._C._len_torch_dispatch_stack,
        f"{SETTING}Python's trace function": sys.gettrace,
        f"{SETTING}Python's profile function": sys.getprofile,
    }


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Yields the Python functions in a function, method or property."""
    parts = [value]
    if isinstance(value, property):
        parts = [value.fget, value.fset, value.fdel]
    elif isinstance(value, classmethod | staticmethod):
        parts = [value.__func__]
    yield from (part for part in parts if type(part) is FunctionType)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
