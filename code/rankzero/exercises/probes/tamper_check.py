"""Tamper check: finds functions, classes and settings of torch, NumPy, the library or a probe that a file changed.

A probe that compares with a changed `torch.equal`, or counts with a changed counter, could return any result. Code in
the same process could change the check, too. So what is compared lies in tuples, made before the learner's file is
loaded, and a suspended generator compares it by functions of C alone. Code that puts a change back in time, or writes
memory, still escapes, so `grading` does not rely on this check.

The comparison runs after every probe, so it is quick: one call of an `itemgetter` or `attrgetter` reads all that is
watched in a module, a class or a function.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from operator import attrgetter, call, is_, itemgetter
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

MODULES = {
    *("builtins", "contextlib", "copy", "functools", "gc", "itertools", "json", "math", "operator", "os", "pathlib"),
    *("pickle", "random", "shutil", "statistics", "struct", "tempfile", "time", "tracemalloc", "unittest.mock"),
    *(
        "weakref",
        "multiprocessing.connection",
        "multiprocessing.reduction",
        "numpy",
        "numpy.linalg",
        "numpy.random",
        "numpy.testing",
    ),
    *("torch", "torch._C._nn", "torch._tensor", "torch.amp.autocast_mode", "torch.autograd"),
    *("torch.autograd.function", "torch.autograd.grad_mode", "torch.autograd.graph", "torch.distributed"),
    *("torch.functional", "torch.linalg", "torch.nn", "torch.nn.functional"),
    *("torch.nn.init", "torch.nn.modules.module", "torch.nn.parameter", "torch.nn.utils", "torch.optim"),
    *("torch.optim.lr_scheduler", "torch.optim.optimizer", "torch.overrides", "torch.random", "torch.testing"),
    *("torch.utils._python_dispatch", "torch.utils._pytree", "torch.utils.flop_counter", "torch.serialization"),
    *("torch.utils.checkpoint", "torch.nn.utils.clip_grad", "torch.nn.parallel.distributed", "torch.storage"),
    *("torch.utils.data.distributed", "torch.multiprocessing.reductions", "torch.distributed.distributed_c10d"),
}
BY_TORCH = {"torch.manual_seed"}  # wrapped by torch._dynamo at its first import
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement; other classes cannot be changed
_PARTS = (
    *(type, FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType),
    *(classmethod, staticmethod, property, functools.partial, np.ufunc, type(np.allclose)),
)
SETTING = "the setting of "
_OF_FUNCTION = attrgetter("__code__", "__defaults__", "__kwdefaults__")
_OF_CELL = attrgetter("cell_contents", "cell_contents")  # of one name, a getter would return no tuple
_OF_CLASS = attrgetter("__bases__", "__bases__")


class TamperCheck:
    """The functions and classes of the watched modules at the time of construction, to compare with later."""

    def __init__(self) -> None:
        watched = sorted(name for name in sys.modules if name in MODULES or name.startswith("rankzero."))
        # Names, a function that reads their values, its argument, and the values.
        self._places: list[tuple[Sequence[str], Callable[[Any], tuple[Any, ...]], Any, tuple[Any, ...]]] = []
        self._kinds: list[tuple[str, Any, type]] = []  # name of a module or class, itself, its type
        # Name of a class or an instance, its names, those at the beginning, and the classes whose names they may hide.
        self._classes: list[tuple[str, Mapping[str, Any], set[str], tuple[type, ...]]] = []
        self._seen: set[int] = set()
        self._watch_keys(watched, sys.modules, watched)
        for name in watched:
            self.add(name, sys.modules[name])
        self._settings = [(SETTING + name, asked, call(*asked)) for name, *asked in _settings()]

    def renew(self) -> None:
        """Takes what is watched as it is now: a lab's probes may replace functions that a learner is not to call."""
        self._places = [(names, getter, owner, getter(owner)) for names, getter, owner, _ in self._places]
        self._classes = [(name, space, set(space), bases) for name, space, _, bases in self._classes]

    def add(self, name: str, module: ModuleType) -> None:
        """Watches this module as well."""
        self._kinds.append((name, module, type(module)))
        self._keep(name, vars(module))
        for key, value in list(vars(module).items()):
            if (space := _own_names(value)) is not None and id(value) not in self._seen:
                self._seen.add(id(value))
                self._keep(f"{name}.{key}", space, type(value).__mro__)
            if issubclass(type(value), type) and value.__flags__ & _HEAP and id(value) not in self._seen:
                self._seen.add(id(value))
                class_name = f"{value.__module__}.{value.__name__}"
                self._kinds.append((class_name, value, type(value)))
                self._watch([class_name, class_name], _OF_CLASS, value)
                self._keep(class_name, vars(value), value.__mro__[1:])

    def watch_value(self, name: str, module: ModuleType, key: str) -> None:
        """Watches a variable of a module as well."""
        self._watch_keys([name], vars(module), [key])

    def _watch_keys(self, names: Sequence[str], space: Mapping[str, Any], keys: Sequence[str]) -> None:
        if keys:  # the first key twice, because a getter of one key would return no tuple
            self._watch([names[0], *names], itemgetter(keys[0], *keys), space)

    def _watch(self, names: Sequence[str], getter: Callable[[Any], tuple[Any, ...]], owner: Any) -> None:
        self._places.append((names, getter, owner, getter(owner)))

    def _keep(self, name: str, space: Mapping[str, Any], bases: tuple[type, ...] = ()) -> None:
        """Watches the functions of a namespace, and whether it gets names that hide those of `bases`."""
        parts = {key: value for key, value in space.items() if issubclass(type(value), _PARTS)}
        keys = [key for key in parts if f"{name}.{key}" not in BY_TORCH]
        self._watch_keys([f"{name}.{key}" for key in keys], space, keys)
        for key in keys:
            for function in _functions_in(parts[key]):
                self._keep_function(f"{name}.{key}", function)
        if bases:
            self._classes.append((name, space, set(space), bases))

    def _keep_function(self, name: str, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        self._watch([name] * 3, _OF_FUNCTION, function)
        if keywords := function.__kwdefaults__:
            self._watch_keys([name] * len(keywords), keywords, [*keywords])
        for cell in function.__closure__ or ():
            if _is_filled(cell) and issubclass(type(cell.cell_contents), _PARTS):
                self._watch([name, name], _OF_CELL, cell)

    def comparison(self) -> Callable[[], bool]:
        """Returns a function of C that returns whether everything is unchanged.

        It resumes a generator, which the learner's code can neither change nor replace.
        """
        generator = self._compare()
        next(generator)
        return generator.__next__

    def _compare(self) -> Iterator[bool]:
        every, each, same, invoke, size, kind, ordered = all, map, is_, call, len, type, tuple
        joined, invoke_each, hidden, failure, intact = chain.from_iterable, starmap, self.hidden, Exception, True
        _, getters, owners, parts = zip(*self._places, strict=True)
        _, objects, kinds = zip(*self._kinds, strict=True)
        _, settings, results = zip(*self._settings, strict=True)
        _, spaces, names, _ = zip(*self._classes, strict=True)
        values, sizes = ordered(joined(parts)), ordered(each(size, names))
        while True:
            yield intact
            try:
                intact = every(each(same, joined(each(invoke, getters, owners)), values))
                intact = intact and every(each(same, each(kind, objects), kinds))
                intact = intact and ordered(invoke_each(invoke, settings)) == results
                intact = intact and (ordered(each(size, spaces)) == sizes or not hidden())
            except failure:  # something is no longer there
                intact = False

    def changed(self) -> str:
        """Returns the name of the first changed function, class, module or setting; an empty string if none has."""
        for name, asked, result in self._settings:
            if call(*asked) != result:
                return name
        for name, value, kind in self._kinds:
            if type(value) is not kind:
                return name
        for names, getter, owner, values in self._places:
            try:
                now = getter(owner)
            except (KeyError, ValueError) as error:
                return next((name for name in names if name.endswith(f".{error.args[0]}")), names[0])
            for name, value, before in zip(names, now, values, strict=True):
                if value is not before:
                    return name
        return self.hidden()

    def hidden(self) -> str:
        """Returns the name of the first method that a new name of a subclass or an instance hides; '' if there is none.

        A seal cannot tell it from the names that torch and Python add to classes themselves.
        """
        for name, now, before, bases in self._classes:
            if len(now) == len(before):
                continue
            new = [key for key in now if key not in before and key != "__slotnames__"]  # added by copying
            hidden = [(key, vars(base)[key]) for key in new for base in bases if key in vars(base)]
            if hides := [key for key, value in hidden if not isinstance(value, functools.cached_property)]:
                return f"{name}.{hides[0]}"
        return ""


def tamper_text(file: str, changed: str) -> str:
    """Returns the error for a file that changed this; an empty string stands for a change that hides its name."""
    if changed.startswith(SETTING):
        return f"{file} changes {changed}: put it back before the function returns"
    name = changed or "a function of torch or of the probes"
    return f"{file} changes {name}, which it does not define: use it unchanged, or write a new function"


def _settings() -> Iterator[tuple[Any, ...]]:
    """Yields settings of the process that change what probes compute: name, a function of C, and its arguments."""
    import torch
    import torch.nn.modules.module

    yield "autocast on the CPU", torch.is_autocast_enabled, "cpu"
    yield "hooks on saved tensors", torch._C._autograd._top_saved_tensors_default_hooks, False
    for module in (torch.nn.modules.module, sys.modules["torch.optim.optimizer"]):
        for name, hooks in vars(module).items():
            if name.startswith("_global_") and isinstance(hooks, dict):
                yield name.strip("_").replace("_", " "), len, hooks
    yield "torch's default dtype", torch.get_default_dtype
    yield "torch's anomaly mode", torch.is_anomaly_enabled
    yield "torch's inference mode", torch.is_inference_mode_enabled
    yield "torch's default device or function mode", torch._C._len_torch_function_stack
    yield "torch's dispatch mode", torch._C._len_torch_dispatch_stack
    yield "Python's trace function", sys.gettrace
    yield "Python's profile function", sys.getprofile


def _own_names(value: Any) -> dict[str, Any] | None:
    """Returns the names of an object of a class written in Python; None for classes, modules and all other objects."""
    kind = type(value)
    if not kind.__flags__ & _HEAP or issubclass(kind, type | ModuleType):
        return None
    try:
        space = object.__getattribute__(value, "__dict__")  # getattr may run code of the object
    except AttributeError:
        return None
    return space if type(space) is dict else None


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
