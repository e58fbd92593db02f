"""Collectives: the calls of each rank in order, the time in them, and the call that a rank is in."""

import functools
import json
import os
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from rankzero.triage.observe.watch import Watch
from rankzero.triage.record import Record

ALIKE = ("all_reduce", "broadcast", "reduce", "all_gather_into_tensor")  # given tensors of one shape on all ranks
NAMES = (
    *ALIKE,
    *("all_gather", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"),
    *("barrier", "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"),
)
KEPT = 8  # of the last calls


class CallLog:
    """A small file with the last calls of a rank. It survives the end of the process by a signal at any moment."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._file, self._pid = watch, -1, 0

    def write(self, record: Record) -> None:
        """Writes the calls, in one system call."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._file = os.open(self._watch.folder / f"{self._pid}.calls", os.O_WRONLY | os.O_CREAT)
        state = {"begun": record.collectives, "calls": record.calls, "inside": record.in_collective}
        os.pwrite(self._file, json.dumps(state | {"rank": record.rank, "ranks": record.ranks}).ljust(2048).encode(), 0)


def install(watch: Watch) -> None:
    """Observes the functions of torch.distributed that communicate."""
    log = CallLog(watch)
    if dist.is_available():
        for name in NAMES:
            observed = _observed(getattr(dist, name), name, watch, log)
            setattr(dist, name, observed)
            setattr(dist.distributed_c10d, name, observed)


def _observed(function: Any, name: str, watch: Watch, log: "CallLog") -> Any:
    @functools.wraps(function)
    def observed(*args: Any, **kwargs: Any) -> Any:
        record = watch.record
        inside = record.in_collective  # one collective may call others
        if torch.compiler.is_compiling() or inside or not _of_all_ranks([*args, *kwargs.values()]):
            return function(*args, **kwargs)
        record.collectives += 1
        tensor = next((value for value in args if isinstance(value, Tensor)), None)
        shape = f" of {list(tensor.shape)}" if tensor is not None and name in ALIKE else ""
        record.calls = [*record.calls, f"{name}{shape}"][-KEPT:]
        record.in_collective = True
        with watch.looking():
            record.rank, record.ranks = dist.get_rank(), dist.get_world_size()
            log.write(record)
            _note_gradients(watch, tensor)
        began = time.perf_counter()
        result = function(*args, **kwargs)
        watch.collective_s += time.perf_counter() - began
        record.in_collective = False
        log.write(record)
        return result

    return observed


def _of_all_ranks(values: list[Any]) -> bool:
    """Returns whether a call is one of the main thread, and of no smaller group: all ranks make these in one order."""
    groups = [value for value in values if isinstance(value, dist.ProcessGroup)]
    own = threading.current_thread() is threading.main_thread()
    return own and dist.is_initialized() and all(group is dist.group.WORLD for group in groups)


def _note_gradients(watch: Watch, tensor: Tensor | None) -> None:
    """Notes that the ranks share gradients: between backward and update, a tensor as large as a parameter is sent."""
    for model in watch.known:
        if tensor is not None and model.step.backward_calls and tensor.numel() > 1:
            model.record.data_parallel |= any(tensor.shape == torch.Size(layer.shape) for layer in model.record.layers)
            model.record.data_parallel |= (
                tensor.numel() >= sum(weight.numel() for weight in model.weights() if weight is not None) // 2
            )
