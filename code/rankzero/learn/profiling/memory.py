"""Memory that training holds, by phase of a step.

Two views. `memory_now` reads the counters of the allocator or the operating system. `PhaseMemory` counts the bytes of
tensors by their role, which is exact and does not depend on the allocator.
"""

import resource
import sys
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_leaves

from rankzero.errors import UserError

MIB = 2**20
_ENTER = saved_tensors_hooks.__enter__


def memory_now(device: torch.device) -> dict[str, int]:
    """Returns the bytes in use, by name.

    CUDA: `allocated` (in tensors), `reserved` (held by torch's caching allocator, so never smaller) and `peak`, the
    most ever allocated. MPS: `allocated` and `reserved`. CPU: `resident` (this whole process, the interpreter and
    libraries included) and `peak`, the most ever resident.
    """
    if device.type == "cuda":
        return {
            "allocated": torch.cuda.memory_allocated(device),
            "reserved": torch.cuda.memory_reserved(device),
            "peak": torch.cuda.max_memory_allocated(device),
        }
    if device.type == "mps":
        return {"allocated": torch.mps.current_allocated_memory(), "reserved": torch.mps.driver_allocated_memory()}
    resident = psutil.Process().memory_info().rss
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"resident": resident, "peak": max(resident, peak)}  # the kernel updates its peak with a delay


def check_fits(needed: int, device: torch.device, first: str = "") -> None:
    """UserError if `needed` bytes are more than the total memory of the device, or of this machine.

    `first`, as in "--micro-batch, ", is the option to lower before the others.
    """
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
    else:
        total = psutil.virtual_memory().total
    if needed > total:
        raise UserError(
            f"out of memory: this would need about {needed / 2**30:,.0f} GiB and there are {total / 2**30:,.0f}: "
            f"use a smaller {first}--batch-size, --block-size, --hidden-dim or --layers."
        )


def tensor_bytes(tensors: Iterable[Tensor]) -> int:
    """Returns the bytes of the storages behind `tensors`; a storage that several tensors share counts once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


@dataclass(frozen=True)
class PhaseRow:
    """Bytes held at the end of one phase of a training step, by role."""

    phase: str
    weights: int
    gradients: int
    optimizer: int
    activations: int  # saved by autograd in the forward pass and still kept, weights left out
    system: dict[str, int]  # memory_now()

    @property
    def total(self) -> int:
        """Returns the sum of the four roles, in bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations


class PhaseMemory:
    """Counts the bytes that a training step holds, phase by phase.

    Use as a context around one step and call `record` at the end of each phase::

        with PhaseMemory(model, optimizer, device) as memory:
            loss = model(x).sum()
            memory.record("forward")

    `peak_activations` is the most that autograd kept at any moment; tensors that are recomputed in backward count too.
    Hooks on saved tensors that the step itself uses hide tensors from autograd: a tensor that such a hook is given, and
    one that it returns, counts as long as it exists.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        self.rows: list[PhaseRow] = []
        self.peak_activations = 0
        self._model, self._optimizer, self._device = model, optimizer, device
        self._weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self._saved: dict[int, list[int]] = {}  # address of a storage -> [tensors that share it, bytes]
        self._hooks = saved_tensors_hooks(self._pack, lambda kept: kept.tensor)

    def __enter__(self) -> "PhaseMemory":
        self._hooks.__enter__()

        def enter(hooks: saved_tensors_hooks) -> None:
            def pack(tensor: Tensor) -> Any:
                packed = hooks.pack_hook(tensor)
                for kept in tree_leaves((tensor, packed)):
                    if isinstance(kept, Tensor):
                        self._count(kept.untyped_storage(), kept.untyped_storage())
                return packed

            torch._C._autograd._push_saved_tensors_default_hooks(pack, hooks.unpack_hook)

        saved_tensors_hooks.__enter__ = enter  # type: ignore[method-assign]
        return self

    def __exit__(self, *exception: Any) -> None:
        saved_tensors_hooks.__enter__ = _ENTER  # type: ignore[method-assign]
        self._hooks.__exit__(*exception)

    def record(self, phase: str) -> None:
        """Adds a row: the bytes held at this moment."""
        parameters, states = list(self._model.parameters()), self._optimizer.state.values()
        self.rows.append(
            PhaseRow(
                phase=phase,
                weights=tensor_bytes(parameters),
                gradients=tensor_bytes(p.grad for p in parameters if p.grad is not None),
                optimizer=tensor_bytes(v for state in states for v in state.values() if isinstance(v, Tensor)),
                activations=sum(size for _, size in self._saved.values()),
                system=memory_now(self._device),
            )
        )

    def table(self) -> str:
        """Returns the rows as text, in MiB (2^20 bytes); of more than 16 rows, only the first 6 and the last 3."""
        roles = ("weights", "gradients", "optimizer", "activations", "total")
        system = [name for name in self.rows[0].system if name != "peak"]
        widths = {name: max(10, len(name) + 2) for name in (*roles, *system)}
        lines = ["MiB after" + "".join(f"{name:>{width}}" for name, width in widths.items())]
        for row in self.rows:
            numbers = {role: getattr(row, role) for role in roles} | {name: row.system[name] for name in system}
            cells = "".join(f"{number / MIB:{widths[name]}.2f}" for name, number in numbers.items())
            lines.append(f"{row.phase:<9}{cells}")
        if len(self.rows) > 16:
            lines[1 + 6 : -3] = [f"...      {len(self.rows) - 6 - 3} rows are left out"]  # the first line has the names
        return "\n".join(lines)

    def _pack(self, tensor: Tensor) -> "_Kept":
        kept = _Kept(tensor.detach())
        self._count(tensor.untyped_storage(), kept)
        return kept

    def _count(self, storage: torch.UntypedStorage, owner: object) -> None:
        """Counts the bytes of `storage`, unless it is a weight's, as long as `owner` exists."""
        address = storage.data_ptr()
        if address not in self._weights:
            entry = self._saved.setdefault(address, [0, storage.nbytes()])
            entry[0] += 1
            self.peak_activations = max(self.peak_activations, sum(size for _, size in self._saved.values()))
            weakref.finalize(owner, self._release, address)

    def _release(self, address: int) -> None:
        self._saved[address][0] -= 1
        if not self._saved[address][0]:
            del self._saved[address]


class _Kept:
    """Holds a saved tensor for autograd; when autograd frees it, its bytes are subtracted."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
