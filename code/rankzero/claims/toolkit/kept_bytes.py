"""Tensors that stay in memory: kept by autograd, or alive at any operation; and modules that recompute them."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from rankzero.ledger.measure import storage_of


def kept_tensors(function: Callable[..., Any], *inputs: Any, left_out: nn.Module | None = None) -> list[Tensor]:
    """Tensors that autograd keeps while `function(*inputs)` runs, without the parameters of `left_out`."""
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.detach())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*inputs)
    weights = {p.data_ptr() for p in left_out.parameters()} if left_out else set()
    return [tensor for tensor in kept if tensor.data_ptr() not in weights]


class Recomputed(nn.Module):
    """Keeps only the input of a module, and runs the module again in backward."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """As the module inside."""
        return checkpoint(self.inner, x, use_reentrant=False)


class LiveBytes(TorchDispatchMode):
    """While active, follows every tensor that an operation returns: bytes alive now, and the most at any operation."""

    def __init__(self, held: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.peak = 0
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        for tensor in held:
            self._follow(tensor)

    def now(self) -> int:
        """Bytes of storages that are still referenced. A storage resized to nothing counts nothing."""
        alive = {address: storage for address, seen in self._storages.items() if (storage := seen()) is not None}
        self._storages = {address: self._storages[address] for address in alive}
        return sum(storage.nbytes() for storage in alive.values())

    def _follow(self, tensor: Tensor) -> None:
        storage = storage_of(tensor)
        seen = self._storages.get(storage._cdata)
        if seen is None or seen() is None:
            self._storages[storage._cdata] = weakref.ref(storage)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._follow(tensor)
        self.peak = max(self.peak, self.now())
        return out
