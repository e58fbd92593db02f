"""What ranks do together besides training: who has which rows, who speaks, where they work, and when they stop."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


def only_rank_0_speaks() -> None:
    """What other ranks print from here on goes nowhere: all would say the same."""
    if dist.get_rank():
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def my_device() -> torch.device:
    """The device that this rank has joined its process group with."""
    cuda = dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")


def my_rows(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """This rank's rows of a batch [B, ...] that all ranks have drawn alike: [B/N, ...] each."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return x.chunk(ranks)[rank], y.chunk(ranks)[rank]


def mean_over_ranks(number: Tensor) -> Tensor:
    """The mean of what each rank has, on every rank; a scalar that is logged, say, which nothing averages by itself."""
    number = number.clone()
    dist.all_reduce(number)
    return number / dist.get_world_size()


def from_rank_0(make: Callable[[], T]) -> T:
    """What `make` returns on rank 0, which alone calls it, on every rank. All ranks call this."""
    made = [make() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(made)
    return made[0]  # type: ignore[return-value]


def any_rank(flag: object, device: torch.device) -> bool:
    """Whether `flag` is true on any rank; all ranks learn the same. A rank that stopped alone would leave the others
    waiting in their next collective.
    """
    told = torch.tensor(float(bool(flag)), device=device)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return bool(told.item())
