"""Import of torch: installs the observers in the moment when a process has imported torch, and costs nothing before."""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def install_with_torch() -> None:
    """Installs the observers in this process: now, if torch is imported already, or else right after its import."""
    if "torch" in sys.modules:
        _install()
    elif not any(isinstance(finder, _TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder())


def _install() -> None:
    from rankzero.triage.observe.install import install

    install()


class _TorchFinder(MetaPathFinder, Loader):
    """Finds torch as Python does, and installs the observers once torch's own code has run."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        self._real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Executes torch, then installs the observers."""
        module.__loader__ = self._real
        if module.__spec__:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        _install()
