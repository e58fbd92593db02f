"""Memory of a sharded model on each rank, and the collectives of one training step.

Shards are DTensors, as `fully_shard` makes them. While a group of parameters is gathered, its modules hold plain
tensors in place of the DTensors, so `model.parameters()` shows which weights are whole at that moment.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.profiling.memory import MIB

Step = Callable[..., object]  # step(model, optimizer, x, y, after), calls `after` with each phase's name


def full_values(tensors: Iterable[Tensor | None]) -> Tensor:
    """Returns all numbers of `tensors`, [N], on every rank: shards are gathered. A None among `tensors` is skipped."""
    gathered = [_whole(t) if isinstance(t, DTensor) else t for t in tensors if t is not None]
    return torch.cat([tensor.detach().flatten() for tensor in gathered])


def _whole(tensor: DTensor) -> Tensor:
    if dist.get_backend() != "gloo" or tensor.device.type == "cpu":
        return tensor.full_tensor()
    parts: list[Any] = [None] * dist.get_world_size()  # gloo's all_gather_into_tensor reads a GPU's address as its own
    dist.all_gather_object(parts, tensor.to_local().detach().cpu())
    return torch.cat(parts).to(tensor.device)


def local_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Returns the bytes of the numbers that this rank holds: of a DTensor, its shard."""
    local = [t.to_local() if isinstance(t, DTensor) else t for t in tensors if t is not None]
    return sum(tensor.numel() * tensor.element_size() for tensor in local)


@dataclass(frozen=True)
class MeasuredStep:
    """One step of one rank: bytes after it, by role; collectives by phase; bytes of whole weights after forward."""

    weights: int
    gradients: int
    averages: int  # AdamW's two averages of each weight; step counters left out
    calls: Mapping[str, Counter[str]]  # "forward", "backward", "update" -> how often each collective was called
    whole: int
    messages: int  # bytes of the step's collectives


def measure(step: Step, model: nn.Module, optimizer: Optimizer, x: Tensor, y: Tensor) -> MeasuredStep:
    """Runs `step(model, optimizer, x, y, after=...)` and counts; `step` must call `after(phase)` as each phase ends."""
    calls: dict[str, Counter[str]] = {}
    whole_bytes: list[int] = []

    def after(phase: str) -> None:
        before = sum(calls.values(), Counter())
        calls[phase] = counter.calls - before
        whole_bytes.append(local_bytes(p for p in model.parameters() if not isinstance(p, DTensor)))

    with CollectiveCounter() as counter:
        step(model, optimizer, x, y, after=after)
    until_update = counter.records[: sum(calls.values(), Counter()).total()]  # later collectives serve the log
    averages = [value for state in optimizer.state.values() for name, value in state.items() if name != "step"]
    return MeasuredStep(
        weights=local_bytes(model.parameters()),
        gradients=local_bytes(p.grad for p in model.parameters()),
        averages=local_bytes(averages),
        calls=calls,
        whole=whole_bytes[0],
        messages=sum(record.bytes for record in until_update),
    )


def table_of_ranks(ways: Mapping[str, MeasuredStep]) -> str:
    """Returns a table: bytes on each rank after a step of each way to train, and the step's collectives.

    In MiB (2^20 bytes). Every rank must call this function. If the rows of all ranks are equal, only one row is shown.
    """
    lines = ["MiB after a step        weights  gradients   averages      total"]
    for name, step in ways.items():
        bytes_of_ranks: list[tuple[int, int, int]] = [(0, 0, 0)] * dist.get_world_size()
        dist.all_gather_object(bytes_of_ranks, (step.weights, step.gradients, step.averages))
        rows = {f"rank {rank}": row for rank, row in enumerate(bytes_of_ranks)}
        if len(bytes_of_ranks) > 1 and len(set(bytes_of_ranks)) == 1:
            rows = {"each rank": bytes_of_ranks[0]}
        for ranks, row in rows.items():
            lines.append(f"{name:<12}{ranks:<8}" + "".join(f"{size / MIB:11.2f}" for size in (*row, sum(row))))
    lines += ["", "one step    all-gathers: forward backward  weights whole      reduced MiB in all"]
    for name, step in ways.items():
        forward, backward = step.calls["forward"], step.calls["backward"]
        kinds = {"reduce_scatter": "scattered", "all_reduce": "to all"}
        reduced = next((f"{backward[kind]} {word}" for kind, word in kinds.items() if backward[kind]), "0")
        counts = f"{forward['all_gather']:>20}{backward['all_gather']:>9}{step.whole / MIB:>15.2f}{reduced:>13}"
        lines.append(f"{name:<12}{counts}{step.messages / MIB:>11.2f}")
    return "\n".join(lines)
