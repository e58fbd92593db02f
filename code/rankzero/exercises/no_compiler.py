"""Keeps torch's compiler out of the worker: its import would take a third of the time that a check takes.

The first optimizer of a process imports `torch._dynamo` to call two functions of it, which do nothing outside compiled
code; a process group that starts calls a third, and DDP a fourth. Exercises compile nothing, so a stand-in has these.
Asked for anything else, it becomes the real module.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

NAME = "torch._dynamo"


def _as_it_is(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
    return function


def _nothing(*_: Any, **__: Any) -> None:
    pass


class _StandIn(ModuleType):
    def __init__(self) -> None:
        super().__init__(NAME)
        spec = PathFinder.find_spec(NAME, torch.__path__)
        assert spec is not None
        self.__spec__, self.__file__, self.__package__ = spec, spec.origin, NAME
        self.__path__ = list(spec.submodule_search_locations or ())
        self.disable = _as_it_is  # what torch.optim wraps its methods in
        self.graph_break = _nothing  # what torch.optim calls in every step
        self.trace_rules = SimpleNamespace(clear_lru_cache=_nothing)  # what init_process_group calls
        self.utils = SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer")  # what DDP asks when it is made

    def become_real(self) -> None:
        """Runs the real module's code in this module."""
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]
        del self.trace_rules, self.utils  # the modules of these names are imported instead
        spec.loader.exec_module(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.become_real()
        return getattr(self, name)


class _Whole(MetaPathFinder, Loader):
    """Makes the stand-in real before one of its submodules is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        package = sys.modules.get(NAME)
        if name.startswith(f"{NAME}.") and isinstance(package, _StandIn):
            package.become_real()
            if name in sys.modules:
                return ModuleSpec(name, self)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has run already."""


def keep_compiler_out() -> None:
    """Puts the stand-in where `torch._dynamo` would be, unless that is there already."""
    if NAME not in sys.modules:
        sys.modules[NAME] = torch._dynamo = _StandIn()
        sys.meta_path.insert(0, _Whole())
