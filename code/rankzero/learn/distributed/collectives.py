"""Counting what a rank communicates: calls and bytes by collective, where they enter the process group.

Every collective of c10d is an operation of PyTorch's dispatcher, whoever calls it: `dist.all_reduce`, the reducer of
DDP, the hooks of `fully_shard`, the redistribution of a DTensor. So a mode of the dispatcher sees them all, with gloo,
with NCCL, and with a fake process group.
"""

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import ScriptObject, Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

# Operation -> collective, and which argument is the whole message: all that is gathered, all that is scattered.
OPERATIONS = {
    "allreduce_": ("all_reduce", 0),
    "allreduce_coalesced_": ("all_reduce", 0),
    "all_reduce": ("all_reduce", 0),
    "all_reduce_": ("all_reduce", 0),
    "allgather_": ("all_gather", 0),
    "_allgather_base_": ("all_gather", 0),
    "allgather_into_tensor_coalesced_": ("all_gather", 0),
    "all_gather_into_tensor": ("all_gather", None),  # functional: what comes back
    "reduce_scatter_": ("reduce_scatter", 1),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 1),
    "reduce_scatter_tensor": ("reduce_scatter", 0),
    "broadcast_": ("broadcast", 0),
    "broadcast": ("broadcast", 0),
    "reduce_": ("reduce", 0),
    "gather_": ("gather", 1),
    "scatter_": ("scatter", 0),
    "alltoall_": ("all_to_all", 1),
    "alltoall_base_": ("all_to_all", 1),
    "all_to_all_single": ("all_to_all", 0),
    "send": ("send", 0),
    "recv_": ("recv", 0),
    "recv_any_source_": ("recv", 0),
    "barrier": ("barrier", None),
    "monitored_barrier_": ("barrier", None),
}
# What one rank of n sends of a message of one byte, by the ring algorithm (NCCL's documentation, PERFORMANCE.md).
RING = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "send": lambda n: 1.0,
}


@dataclass(frozen=True)
class Record:
    """One call: which collective, the bytes of the whole message, the dtype, and the number of ranks that share it."""

    collective: str
    bytes: int
    dtype: str
    ranks: int

    @property
    def ring_bytes(self) -> float:
        """What this rank sends if the collective is a ring; 0 where no ring is meant."""
        return self.bytes * RING[self.collective](self.ranks) if self.collective in RING else 0.0


class CollectiveCounter(TorchDispatchMode):
    """Counts, while it is entered, what this rank calls in this thread and in the backward passes that it starts.

    The message of an all-reduce, a broadcast, a send is the tensor; that of an all-gather is its whole output, that of
    a reduce-scatter its whole input.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # first the DTensor: what it calls comes back here
        result = func(*args, **(kwargs or {}))
        if func.namespace in ("c10d", "_c10d_functional"):
            found = OPERATIONS.get(func._schema.name.split("::")[1])
            if found:
                collective, place = found
                functional = func.namespace == "_c10d_functional" and place is None
                message = _tensors(result if functional else args[place] if place is not None else None)
                size = sum(tensor.numel() * tensor.element_size() for tensor in message)
                dtype = str(message[0].dtype).removeprefix("torch.") if message else ""
                self.records.append(Record(collective, size, dtype, _ranks(args)))
        return result

    @property
    def calls(self) -> Counter[str]:
        """How often each collective was called."""
        return Counter(record.collective for record in self.records)

    @property
    def bytes(self) -> Counter[str]:
        """Bytes of the messages of each collective."""
        total: Counter[str] = Counter()
        for record in self.records:
            total[record.collective] += record.bytes
        return total

    def in_order(self) -> str:
        """What was called, in order, with the bytes of each: 'broadcast 120, all_reduce 1,050,112 + 2,182,144 + 4'."""
        groups = itertools.groupby(self.records, key=lambda record: record.collective)
        return ", ".join(f"{name} {' + '.join(f'{one.bytes:,}' for one in some)}" for name, some in groups)

    def table(self) -> str:
        """The counts as text: collective, calls, bytes."""
        lines = [f"{'collective':<16}{'calls':>7}{'bytes':>16}"]
        lines += [f"{name:<16}{calls:>7}{self.bytes[name]:>16,}" for name, calls in self.calls.items()]
        return "\n".join(lines)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in _tensors(one)]
    return []


def _ranks(args: Any) -> int:
    """The size of the process group among the arguments: an object of c10d, or the name of a group."""
    for arg in args:
        if isinstance(arg, ScriptObject) and "ProcessGroup" in arg._type().qualified_name():
            return dist.ProcessGroup.unbox(arg).size()
        if isinstance(arg, str):
            try:
                return int(dist.distributed_c10d._resolve_process_group(arg).size())  # type: ignore
            except (RuntimeError, ValueError):
                continue
    return dist.get_world_size()
