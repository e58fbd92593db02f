"""Counting the operations that a program runs, for claims."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Calls(TorchDispatchMode):
    """Counts the operations that reach a kernel, by name, and the bytes of the tensors that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name.startswith("profiler::"):  # a range, no work
            return out
        self.count[name] = self.count.get(name, 0) + 1
        read, written = ([t for t in tree_leaves(value) if isinstance(t, Tensor)] for value in ((args, kwargs), out))
        changed = [argument.alias_info for argument in func._schema.arguments]
        writes_in_place = any(alias is not None and alias.is_write for alias in changed)
        if writes_in_place or not {t.data_ptr() for t in read} & {
            t.data_ptr() for t in written
        }:  # a view moves nothing
            self.bytes += sum(t.nbytes for t in read) + sum(t.nbytes for t in written)
        return out

    @property
    def total(self) -> int:
        """All calls."""
        return sum(self.count.values())
