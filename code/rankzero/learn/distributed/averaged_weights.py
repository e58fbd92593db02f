"""Averages of a sharded model's weights over steps, and the loss of a sharded model on whole batches."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.learn.data.batches import to_device


@torch.no_grad()
def move_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Moves each rank's shards of the average of the weights towards the weights."""
    for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
        mean.to_local().lerp_(parameter.to_local(), 1 - decay)  # type: ignore[attr-defined]


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    """Mean loss in nats per token, without dropout. Every rank takes every batch."""
    model.eval()
    total, tokens = 0.0, 0
    for x, y in batches:
        x, y = to_device(x, y, device)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    model.train()
    model.reshard()  # type: ignore[operator] # whole weights of the root stay after a forward without backward
    return total / tokens
