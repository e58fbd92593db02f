"""What a rank holds of a model in parts, and what one step of it calls, counted and shown.

Parts are DTensors, as `fully_shard` makes them. While a group of parameters is gathered its modules hold plain tensors
in their place, so that a look at `model.parameters()` tells what is whole at that moment.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.profiling.memory import MIB

Step = Callable[..., object]  # step(model, optimizer, x, y, after), calls `after` with each phase's name


def whole(tensors: Iterable[Tensor | None]) -> Tensor:
    """All numbers of `tensors` laid end to end, on every rank: those of other ranks are gathered. None is left out."""
    every = [one.full_tensor() if isinstance(one, DTensor) else one for one in tensors if one is not None]
    return torch.cat([one.detach().flatten() for one in every])


def local_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Bytes of the numbers that this rank holds: of a DTensor, those of its own part."""
    every = [one.to_local() if isinstance(one, DTensor) else one for one in tensors if one is not None]
    return sum(one.numel() * one.element_size() for one in every)


@dataclass(frozen=True)
class Measured:
    """One step of one rank. Bytes after it, by role; collectives by phase; bytes of whole weights after forward."""

    weights: int
    gradients: int
    averages: int  # AdamW's two for each weight, without its step counters
    calls: Mapping[str, Counter[str]]  # "forward", "backward", "update" -> how often each collective was called
    whole: int
    messages: int  # bytes of the step's collectives


def measure(step: Step, model: nn.Module, optimizer: Optimizer, x: Tensor, y: Tensor) -> Measured:
    """Runs `step(model, optimizer, x, y, after=...)` and counts. It calls `after` when a phase ends, with its name."""
    calls: dict[str, Counter[str]] = {}
    held: list[int] = []

    def after(phase: str) -> None:
        before = sum(calls.values(), Counter())
        calls[phase] = counter.calls - before
        held.append(local_bytes(p for p in model.parameters() if not isinstance(p, DTensor)))

    with CollectiveCounter() as counter:
        step(model, optimizer, x, y, after=after)
    until_update = counter.records[: sum(calls.values(), Counter()).total()]  # what comes later is for the log
    averages = [value for state in optimizer.state.values() for name, value in state.items() if name != "step"]
    return Measured(
        weights=local_bytes(model.parameters()),
        gradients=local_bytes(p.grad for p in model.parameters()),
        averages=local_bytes(averages),
        calls=calls,
        whole=held[0],
        messages=sum(record.bytes for record in until_update),
    )


def table_of_ranks(ways: Mapping[str, Measured]) -> str:
    """What each rank holds after a step of each way to train, and what the step took, in MiB (2^20 bytes).

    All ranks call it. Where all ranks hold the same, one line says so.
    """
    lines = ["MiB after a step        weights  gradients   averages      total"]
    for name, mine in ways.items():
        every: list[tuple[int, int, int]] = [(0, 0, 0)] * dist.get_world_size()
        dist.all_gather_object(every, (mine.weights, mine.gradients, mine.averages))
        rows = {f"rank {rank}": row for rank, row in enumerate(every)}
        if len(every) > 1 and len(set(every)) == 1:
            rows = {"each rank": every[0]}
        for who, row in rows.items():
            lines.append(f"{name:<12}{who:<8}" + "".join(f"{size / MIB:11.2f}" for size in (*row, sum(row))))
    lines += ["", "one step      forward: all-gathers  weights whole   backward: all-gathers  reduced   MiB in all"]
    for name, mine in ways.items():
        forward, backward = mine.calls["forward"], mine.calls["backward"]
        kinds = {"reduce_scatter": "scattered", "all_reduce": "to all"}
        reduced = next((f"{backward[kind]} {word}" for kind, word in kinds.items() if backward[kind]), "0")
        counts = f"{forward['all_gather']:>22}{mine.whole / MIB:15.2f}{backward['all_gather']:>24}{reduced:>15}"
        lines.append(f"{name:<12}{counts}{mine.messages / MIB:10.2f}")
    return "\n".join(lines)
