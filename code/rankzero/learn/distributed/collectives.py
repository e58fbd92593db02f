"""Collective counter: the calls and bytes of each collective of a rank, counted where they enter the process group.

Every collective of c10d is an operation of PyTorch's dispatcher, called by `dist.all_reduce`, the reducer of DDP, the
hooks of `fully_shard` or the redistribution of a DTensor. So a mode of the dispatcher intercepts them all, with gloo,
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
from torch.utils._pytree import tree_leaves

# Operation -> collective, and the index of the argument with the whole message: the gathered or the unscattered tensor.
OPERATIONS = {
    "allreduce_": ("all_reduce", 0),
    "allreduce_coalesced_": ("all_reduce", 0),
    "all_reduce": ("all_reduce", 0),
    "all_reduce_": ("all_reduce", 0),
    "all_reduce_coalesced": ("all_reduce", 0),
    "all_reduce_coalesced_": ("all_reduce", 0),
    "allgather_": ("all_gather", 0),
    "_allgather_base_": ("all_gather", 0),
    "allgather_coalesced_": ("all_gather", 0),
    "allgather_into_tensor_coalesced_": ("all_gather", 0),
    "all_gather_into_tensor": ("all_gather", None),  # functional: the returned tensor
    "all_gather_into_tensor_out": ("all_gather", None),
    "all_gather_into_tensor_coalesced": ("all_gather", None),
    "reduce_scatter_": ("reduce_scatter", 1),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 1),
    "reduce_scatter_tensor": ("reduce_scatter", 0),
    "reduce_scatter_tensor_out": ("reduce_scatter", 0),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 0),
    "broadcast_": ("broadcast", 0),
    "broadcast": ("broadcast", 0),
    "reduce_": ("reduce", 0),
    "gather_": ("gather", 1),
    "scatter_": ("scatter", 0),
    "alltoall_": ("all_to_all", 1),
    "alltoall_base_": ("all_to_all", 1),
    "all_to_all_single": ("all_to_all", 0),
    "send": ("send", 0),
    "isend": ("send", 0),
    "recv_": ("recv", 0),
    "irecv": ("recv", 0),
    "recv_any_source_": ("recv", 0),
    "barrier": ("barrier", None),
    "monitored_barrier_": ("barrier", None),
}
NAMESPACES = ("c10d", "_c10d_functional", "symm_mem")
# Operations that send nothing. Any other operation without an entry above counts under its own name.
SILENT = {"wait_tensor", "check_for_nan", "_wrap_tensor_autograd"}
# Bytes that one rank of n sends per byte of the message, by the ring algorithm (NCCL's documentation, PERFORMANCE.md).
RING = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "send": lambda n: 1.0,
}


@dataclass(frozen=True)
class Record:
    """One call: collective, bytes of the whole message, dtype, and the number of ranks in the group."""

    collective: str
    bytes: int
    dtype: str
    ranks: int

    @property
    def ring_bytes(self) -> float:
        """Bytes that this rank sends if the collective runs as a ring; 0 for collectives without a ring."""
        return self.bytes * RING[self.collective](self.ranks) if self.collective in RING else 0.0


class CollectiveCounter(TorchDispatchMode):
    """Counts, while entered, the collectives that this thread calls, also in the backward passes that it starts.

    The message of an all-reduce, a broadcast or a send is its tensor; that of an all-gather is its whole output, that
    of a reduce-scatter its whole input.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # the DTensor's own dispatch runs first and calls c10d through this mode
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
        if func.namespace in NAMESPACES and name not in SILENT:
            collective, message = _message(func.namespace, name, args, result)
            size = sum(tensor.numel() * tensor.element_size() for tensor in message)
            dtype = str(message[0].dtype).removeprefix("torch.") if message else ""
            self.records.append(Record(collective, size, dtype, _ranks(args)))
        return result

    @property
    def calls(self) -> Counter[str]:
        """Number of calls of each collective."""
        return Counter(record.collective for record in self.records)

    @property
    def bytes(self) -> Counter[str]:
        """Bytes of the messages of each collective."""
        total: Counter[str] = Counter()
        for record in self.records:
            total[record.collective] += record.bytes
        return total

    def in_order(self) -> str:
        """Returns the calls in order with their bytes: 'broadcast 120, all_reduce 1,050,112 + 2,182,144 + 4'."""
        groups = itertools.groupby(self.records, key=lambda record: record.collective)
        return ", ".join(f"{name} {' + '.join(f'{record.bytes:,}' for record in records)}" for name, records in groups)

    def table(self) -> str:
        """Returns the counts as text: collective, calls, bytes."""
        lines = [f"{'collective':<16}{'calls':>7}{'bytes':>16}"]
        lines += [f"{name:<16}{calls:>7}{self.bytes[name]:>16,}" for name, calls in self.calls.items()]
        return "\n".join(lines)


def _message(namespace: str, name: str, args: Any, result: Any) -> tuple[str, list[Tensor]]:
    """Returns the collective of an operation, and the tensors of its whole message."""
    collective, index = OPERATIONS.get(name, (name.strip("_"), -1))
    if index is None:
        whole = result if namespace == "_c10d_functional" else None
    else:
        whole = args if index < 0 else args[index]
    return collective, [leaf for leaf in tree_leaves(whole) if isinstance(leaf, Tensor)]


def _ranks(args: Any) -> int:
    """Returns the size of the process group among the arguments: an object of c10d, or the name of a group."""
    for arg in args:
        if isinstance(arg, ScriptObject) and "ProcessGroup" in arg._type().qualified_name():
            return dist.ProcessGroup.unbox(arg).size()
        if isinstance(arg, str):
            try:
                return int(dist.distributed_c10d._resolve_process_group(arg).size())  # type: ignore
            except (RuntimeError, ValueError):
                continue
    return dist.get_world_size()
