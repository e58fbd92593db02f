"""Graphs that live on: nodes of autograd's graph which tensors in memory hold after an update."""

import gc
from pathlib import Path
from typing import Any

from torch import Tensor

from rankzero.triage.observe.watch import Watch
from rankzero.triage.record import Memory

AT_STEPS = {3, 6, 10, 15, 20, 30, 40, 60, 80, 120, 160, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3200}
MOST_NODES = 50_000
ROW_KINDS = 2  # a tensor with this many times the rows of a batch is the data that batches come from


def look(watch: Watch) -> None:
    """Counts nodes and resident bytes after some of the updates."""
    step = max((len(model.record.steps) for model in watch.known), default=0)
    if step not in AT_STEPS or (watch.record.memory and watch.record.memory[-1].step == step):
        return
    tensors = [thing for thing in gc.get_objects() if type(thing) is Tensor]
    nodes = _reachable([tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None])
    watch.record.memory.append(Memory(step=step, nodes=nodes, resident=_resident()))
    for model in watch.known:
        batch = model.trained.inputs[0] if model.trained and model.trained.inputs else None
        if batch is not None and batch.dim() >= 2:
            model.record.larger_data |= any(_same_rows(tensor, batch) for tensor in tensors)


def _same_rows(tensor: Tensor, batch: Tensor) -> bool:
    """Returns whether rows of `batch` may have come from `tensor`, which has at least ROW_KINDS times its numbers."""
    floating = tensor.is_floating_point() == batch.is_floating_point() or batch.is_floating_point()
    same_shape = tensor.dim() == batch.dim() and tensor.shape[1:] == batch.shape[1:]
    kind = same_shape or (tensor.dim() == 1 and not batch.is_floating_point())
    return floating and kind and tensor.numel() >= ROW_KINDS * batch.numel()


def _reachable(roots: list[Any]) -> int:
    """Returns the number of nodes of the graph, counted from `roots` towards the leaves, at most MOST_NODES."""
    seen, waiting = set[Any](), list(roots)
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(following for following, _ in node.next_functions if following is not None)
    return len(seen)


def _resident() -> int:
    file = Path("/proc/self/statm")
    if not file.exists():
        return 0
    return int(file.read_text().split()[1]) * 4096
