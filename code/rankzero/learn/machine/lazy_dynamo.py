"""Lazy import of torch's compiler: `torch._dynamo` takes 1.5 s to import, and eager training never needs it.

The first optimizer of a process imports `torch._dynamo` to call two of its functions, which do nothing outside compiled
code. A process group that starts calls a third function, DDP a fourth, and checkpointing reads the compiler's settings.
A stand-in has these functions and settings. It becomes the real module when any other attribute or submodule is
needed: by `torch.compile`, `torch.export`, `fully_shard`, or an import of a submodule.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any
from weakref import WeakSet

NAME = "torch._dynamo"
WRAPPED = "__dynamo_disable"  # the attribute in which torch/_compile.py caches the result of `disable`
CONFIG = f"{NAME}.config"  # torch's own module, which imports nothing else of the compiler


def import_dynamo_lazily() -> None:
    """Makes every later import of `torch._dynamo` in this process give the stand-in first.

    Called by programs that train: starters, the command line, probe servers, workers that measure claims. Does nothing
    where `torch._dynamo` is imported already.
    """
    if not any(isinstance(finder, _StandInFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _StandInFinder())


def _do_nothing(*_: Any, **__: Any) -> None:
    pass


class _Submodule:
    """The functions of one submodule that eager code calls; any other attribute makes the whole stand-in real."""

    def __init__(self, package: "_StandIn", name: str, **functions: Callable[..., Any]) -> None:
        self.__package, self.__name = package, name
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        self.__package.become_real()
        return getattr(getattr(self.__package, self.__name), name)


class _StandIn(ModuleType):
    """The functions of `torch._dynamo` that eager code calls. `real` is the spec of torch's own module."""

    def __init__(self, real: ModuleSpec) -> None:
        super().__init__(NAME)
        self.__real = real
        self.__disabled: WeakSet[Callable[..., Any]] = WeakSet()  # a function's closure may hold tensors
        self.graph_break = _do_nothing  # called by torch.optim in every step
        self.trace_rules = _Submodule(self, "trace_rules", clear_lru_cache=_do_nothing)  # called by init_process_group
        self.utils = _Submodule(self, "utils", get_optimize_ddp_mode=lambda: "ddp_optimizer")  # called by DDP

    def disable(self, function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        """Returns `function` itself. torch.optim wraps its methods in `disable` and caches the result."""
        self.__disabled.add(function)
        return function

    def become_real(self) -> None:
        """Executes torch's module in this module object and clears the cached results of `disable`."""
        real = self.__real
        assert real.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]
        del self.trace_rules, self.utils  # the real submodules of these names are imported instead
        self.__spec__, self.__loader__ = real, real.loader
        for function in self.__disabled:
            vars(function).pop(WRAPPED, None)
        real.loader.exec_module(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{NAME}.{name}" == CONFIG:
            return importlib.import_module(CONFIG)
        self.become_real()
        return getattr(self, name)


class _StandInFinder(MetaPathFinder, Loader):
    """Imports the stand-in as `torch._dynamo`, and makes it real before one of its submodules is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == NAME:
            real = PathFinder.find_spec(name, path)
            if real is None:
                return None
            self._real = real
            spec = ModuleSpec(name, self, origin=real.origin)
            spec.submodule_search_locations, spec.has_location = real.submodule_search_locations, True
            return spec
        package = sys.modules.get(NAME)
        if name.startswith(f"{NAME}.") and name != CONFIG and isinstance(package, _StandIn):
            package.become_real()
            if name in sys.modules:
                return ModuleSpec(name, self)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules.get(spec.name) or _StandIn(self._real)

    def exec_module(self, module: ModuleType) -> None:
        """Executes nothing: the stand-in is complete, and a submodule was executed by `become_real`."""
