"""Rank synchronization beside training: rows of a batch, means for the log, actions of rank 0, a common stop."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from rankzero.errors import UserError
from rankzero.learn.distributed.rank import rank_device

T = TypeVar("T")


class StopRequest(Protocol):
    """A request to stop, as in `learn/runs/stop_request.py`: true if `number`, of a signal, is not 0."""

    number: int


def silence_other_ranks() -> None:
    """Discards what ranks other than 0 print from here on: all ranks print the same."""
    if dist.get_rank():
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def my_rows(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Returns this rank's rows, [B/N, ...] each, of a batch [B, ...] that is the same on all N ranks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return x.chunk(ranks)[rank], y.chunk(ranks)[rank]


def mean_over_ranks(number: Tensor) -> Tensor:
    """Returns the mean of the ranks' tensors, on every rank; for a scalar to log, which DDP does not average."""
    number = number.clone()
    dist.all_reduce(number)
    return number / dist.get_world_size()


def on_rank_0(action: Callable[[], T]) -> T:
    """Calls `action` on rank 0 alone while the others wait; returns its value, or raises its UserError, on all ranks.

    So no rank waits in a collective for a rank 0 that has failed.
    """
    value_and_error: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            value_and_error[0] = action()
        except UserError as error:
            value_and_error[1] = error
    device = rank_device() if rank_device().type == "cuda" else None
    dist.broadcast_object_list(value_and_error, device=device)
    if value_and_error[1]:
        raise value_and_error[1]
    return cast(T, value_and_error[0])


def any_rank(request: StopRequest, device: torch.device) -> bool:
    """Returns whether a signal has asked any rank to stop, and makes that the request of every rank.

    A rank that stopped by its own request would leave the other ranks waiting in their next collective.
    """
    number = torch.tensor(float(request.number), device=device)
    dist.all_reduce(number, op=dist.ReduceOp.MAX)  # SIGTERM, 15, before SIGINT, 2
    request.number = int(number.item())
    return request.number != 0
