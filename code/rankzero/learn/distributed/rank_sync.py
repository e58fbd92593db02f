"""What ranks do together besides training: who has which rows, who speaks, and when they stop."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from rankzero.errors import UserError
from rankzero.learn.distributed.rank import rank_device

T = TypeVar("T")


def only_rank_0_speaks() -> None:
    """What other ranks print from here on goes nowhere: all would say the same."""
    if dist.get_rank():
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def my_rows(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """This rank's rows of a batch [B, ...] that all ranks have drawn alike: [B/N, ...] each."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return x.chunk(ranks)[rank], y.chunk(ranks)[rank]


def mean_over_ranks(number: Tensor) -> Tensor:
    """The mean of what each rank has, on every rank; a scalar that is logged, say, which nothing averages by itself."""
    number = number.clone()
    dist.all_reduce(number)
    return number / dist.get_world_size()


def on_rank_0(action: Callable[[], T]) -> T:
    """Rank 0 does it, for what only one rank may do. All wait, and get what it returns, or raise its UserError.

    So nobody waits in a collective for a rank that has failed.
    """
    said: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            said[0] = action()
        except UserError as error:
            said[1] = error
    dist.broadcast_object_list(said, device=rank_device() if rank_device().type == "cuda" else None)
    if said[1]:
        raise said[1]
    return cast(T, said[0])


def any_rank(flag: object, device: torch.device) -> bool:
    """Whether `flag` is true on any rank; all ranks learn the same. A rank that stopped alone would leave the others
    waiting in their next collective.
    """
    told = torch.tensor(float(bool(flag)), device=device)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return bool(told.item())
