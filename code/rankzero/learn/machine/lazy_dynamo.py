"""Keeps torch's compiler from being imported before somebody compiles: a second and a half of every run and notebook.

The first optimizer of a process imports `torch._dynamo` to call two functions of it, which do nothing outside compiled
code; a process group that starts calls a third, and DDP a fourth; checkpointing reads the compiler's settings. A
stand-in has these. Asked for anything else, it becomes the real module: `torch.compile` works as ever.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"
KEPT = "__dynamo_disable"  # where torch/_compile.py keeps what `disable` has made of a function
SETTINGS = f"{NAME}.config"  # torch's own, which needs nothing else of the compiler


def _nothing(*_: Any, **__: Any) -> None:
    pass


class _Part:
    """A function of one of its submodules; asked for anything else, all becomes real."""

    def __init__(self, whole: "_StandIn", name: str, **functions: Callable[..., Any]) -> None:
        self.__whole, self.__name = whole, name
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        self.__whole.become_real()
        return getattr(getattr(self.__whole, self.__name), name)


class _StandIn(ModuleType):
    """`torch._dynamo` as far as eager code calls it. `real` is where that is."""

    def __init__(self, real: ModuleSpec) -> None:
        super().__init__(NAME)
        self.__real = real
        self.__as_they_are: list[Callable[..., Any]] = []
        self.graph_break = _nothing  # what torch.optim calls in every step
        self.trace_rules = _Part(self, "trace_rules", clear_lru_cache=_nothing)  # what init_process_group calls
        self.utils = _Part(self, "utils", get_optimize_ddp_mode=lambda: "ddp_optimizer")  # what DDP asks

    def disable(self, function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        """What torch.optim wraps its methods in, and keeps."""
        self.__as_they_are.append(function)
        return function

    def become_real(self) -> None:
        """Runs the real module's code in this module. Whoever was given back as it is asks again."""
        real = self.__real
        assert real.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]
        del self.trace_rules, self.utils  # the modules of these names are imported instead
        self.__spec__, self.__loader__ = real, real.loader
        for function in self.__as_they_are:
            vars(function).pop(KEPT, None)
        real.loader.exec_module(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{NAME}.{name}" == SETTINGS:
            return importlib.import_module(SETTINGS)
        self.become_real()
        return getattr(self, name)


class _Keeper(MetaPathFinder, Loader):
    """Gives the stand-in to who imports `torch._dynamo`, and makes it real before one of its submodules is imported."""

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
        if name.startswith(f"{NAME}.") and name != SETTINGS and isinstance(package, _StandIn):
            package.become_real()
            if name in sys.modules:
                return ModuleSpec(name, self)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules.get(spec.name) or _StandIn(self._real)

    def exec_module(self, module: ModuleType) -> None:
        """It has run already, or need not yet."""


def keep_compiler_out() -> None:
    """From now on, `torch._dynamo` is imported as the stand-in first."""
    if not any(isinstance(finder, _Keeper) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Keeper())
