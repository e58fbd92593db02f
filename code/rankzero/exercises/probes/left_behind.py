"""Left behind: the memory that code still holds, and what it leaves on modules, counted by probes."""

import gc
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Bytes of one of Python's or NumPy's objects: more than any object of a right answer, less than 800 numbers take.
LARGE = 6_000


class Watch(TorchDispatchMode):
    """While active, counts operations by name, and the bytes that were made and still exist.

    Counts tensors of every dtype, storages without a tensor, and large objects of Python and NumPy.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ran: dict[str, int] = {}
        self._made: dict[int, StorageWeakRef] = {}
        self._older: dict[int, StorageWeakRef] = {}  # a weak reference keeps the address from being used again

    def __enter__(self) -> Self:
        self._before = {storage._cdata: StorageWeakRef(storage) for storage in _storages(gc.get_objects())}
        super().__enter__()
        tracemalloc.start()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        tracemalloc.stop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.ran[name] = self.ran.get(name, 0) + 1
        for storage in _storages(tree_leaves((args, kwargs))):
            if storage._cdata not in self._made.keys() | self._older.keys():
                self._older[storage._cdata] = StorageWeakRef(storage)
        out = func(*args, **(kwargs or {}))
        for storage in _storages(tree_leaves(out)):
            if storage._cdata not in self._made.keys() | self._older.keys():
                self._made[storage._cdata] = StorageWeakRef(storage)
        return out

    def bytes_but(self, *tensors: Tensor | None, states: int = 1) -> int:
        """Returns the bytes that exist, without `tensors`, `states` states of the random generator and single numbers.

        If one of `tensors` is a part of a storage, the other bytes of the storage count. A single number may be a
        tensor for requires_grad.
        """
        elsewhere = tracemalloc.get_traced_memory()[0]
        if elsewhere < 2**23:  # a snapshot of more would take seconds
            large = [trace for trace in tracemalloc.take_snapshot().traces if trace.size > LARGE]
            elsewhere = sum(trace.size for trace in large if not _is_counter(trace.traceback[0].filename))
        for storage in _storages(gc.get_objects()):
            if storage._cdata not in self._made.keys() | self._before.keys():
                self._made[storage._cdata] = StorageWeakRef(storage)
        left_out = {tensor.untyped_storage()._cdata: tensor.nbytes for tensor in tensors if tensor is not None}
        alive = [torch.UntypedStorage._new_with_weak_ptr(ref.cdata) for ref in self._made.values()]
        sizes = [max(0, one.nbytes() - left_out.get(one._cdata, 0)) for one in alive if one is not None]
        state = torch.get_rng_state().nbytes
        total = sum(size for size in sizes if size > 8) - state * min(states, sizes.count(state))
        return total + elsewhere


def _is_counter(file: str) -> bool:
    """Returns whether objects made in this file are of the count itself, or of an import."""
    return file == __file__ or file.startswith("<frozen importlib")


def _storages(values: Iterable[Any]) -> Iterator[Any]:
    """Yields the storages among the values, and those of tensors."""
    for value in values:
        if issubclass(type(value), torch.UntypedStorage):
            yield value
        elif issubclass(type(value), Tensor):
            with suppress(RuntimeError, NotImplementedError):  # a tensor without a storage
                yield value.untyped_storage()


class Attached:
    """Counts what is attached to a module, its parts and its parameters: hooks of every kind, attributes, classes."""

    def __init__(self, *modules: nn.Module) -> None:
        self._modules = modules
        self._kinds = {id(part): type(part) for part in self._parts()}
        self._first = self._count()

    def more(self) -> int:
        """Returns how many hooks, attributes and other classes there are now that were not there at first."""
        return self._count() - self._first

    def _parts(self) -> list[nn.Module]:
        return [part for module in self._modules for part in nn.Module.modules(module)]

    def _count(self) -> int:
        count = sum(self._kinds.get(id(part)) is not type(part) for part in self._parts())
        for space in [vars(torch.nn.modules.module), *map(vars, self._parts())]:
            parts = [value for key, value in space.items() if isinstance(value, dict) and key != "__builtins__"]
            count += len(space) + sum(map(dict.__len__, parts))
        for parameter in (one for module in self._modules for one in nn.Module.parameters(module)):
            hooks = parameter._backward_hooks, parameter._post_accumulate_grad_hooks
            count += sum(dict.__len__(one) for one in hooks if one is not None)
        return count
