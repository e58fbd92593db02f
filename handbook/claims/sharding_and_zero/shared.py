"""What several claims of handbook/sharding-and-zero.md share."""

import contextlib
import math
import warnings
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.ledger.measure import storage_of
from rankzero.ledger.plan.simulate import fake_world

ZERO_PAPER = "[ZeRO](https://arxiv.org/abs/1910.02054)"
FULLY_SHARD = "[fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)"


@contextlib.contextmanager
def one_of(*shape: int, rank: int = 0) -> Iterator[DeviceMesh]:
    """A mesh of fake ranks of which only `rank` exists: its collectives return at once, with no data."""
    with fake_world(math.prod(shape), rank), warnings.catch_warnings(action="ignore"):
        yield init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])


def order(counter: CollectiveCounter) -> str:
    """The collectives as letters: all-gather G, reduce-scatter R, all-reduce A."""
    return "".join(
        {"all_gather": "G", "reduce_scatter": "R", "all_reduce": "A"}[record.collective] for record in counter.records
    )


class LiveBytes(TorchDispatchMode):
    """While active, follows every tensor that is made: bytes alive now, and the most at any operation."""

    def __init__(self, held: Iterable[Tensor]) -> None:
        super().__init__()
        self.peak = 0
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        for tensor in held:
            self._follow(tensor)

    def now(self) -> int:
        """Bytes of storages that somebody still holds. A storage resized to nothing counts nothing."""
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
