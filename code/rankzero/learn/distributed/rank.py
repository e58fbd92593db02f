"""One rank's place in the process group: joining it, the rank's device, the number of its step."""

import datetime
import os
import sys
import warnings
from collections.abc import Callable, MutableSequence
from typing import Any

import torch
import torch.distributed as dist

from rankzero.errors import UserError

# A collective that has waited this long fails. NCCL's first collective may compile and connect for a minute.
COLLECTIVE_SECONDS = {"gloo": 10.0, "nccl": 120.0}
# Ranks of torchrun are new Pythons, on other machines perhaps: one may have imported torch minutes after another.
JOIN_SECONDS = 600.0

_steps: MutableSequence[int] | None = None  # of every rank, shared with the process that started them
_device = torch.device("cpu")


def launched_by_torchrun() -> bool:
    """Returns whether torchrun, or a launcher that sets the same variables, has started this process as a rank."""
    return {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def note_step(step: int) -> None:
    """Notes the step that begins, so that the report of a failure can name that step. Takes no measurable time."""
    if _steps is not None:
        _steps[dist.get_rank()] = step


def share_steps(steps: MutableSequence[int]) -> None:
    """Makes `note_step` write into `steps`, which has a number per rank."""
    global _steps
    _steps = steps


def rank_device() -> torch.device:
    """Returns the device of this rank."""
    return _device


def join(
    device: str = "cpu",
    *,
    store: Any = None,
    rank: int = -1,
    ranks: int = -1,
    debug: bool = False,
    collective_seconds: float | None = None,
) -> torch.device:
    """Joins the default process group; returns the device of this rank.

    `device` is "auto", "cpu", "cuda" (each rank of a machine has its own CUDA device, over NCCL) or "cuda:N" (all ranks
    share that device, over gloo, since NCCL refuses two ranks on one). Without `store`, `rank` and `ranks`, they come
    from torchrun's environment variables. With `debug`, c10d compares the ranks' calls before each collective. A
    collective fails that waits for `collective_seconds`, by default COLLECTIVE_SECONDS of the backend.
    UserError where there are too few devices.
    """
    local = int(os.environ["LOCAL_RANK"]) if store is None else rank
    local_ranks = int(os.environ["LOCAL_WORLD_SIZE"]) if store is None else ranks
    global _device
    _device = own_device = device_of_rank(device, local, local_ranks)
    if own_device.type == "cuda":
        torch.cuda.set_device(own_device)
    elif store is not None and "GLOO_SOCKET_IFNAME" not in os.environ:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"  # all ranks are on this machine
    # torch 2.13 announces other names for all_gather_into_tensor and reduce_scatter_tensor; 2.11 lacks them.
    warnings.filterwarnings("ignore", message=r".*_single.*", category=FutureWarning)
    backend = "nccl" if own_device.type == "cuda" and device in ("auto", "cuda") else "gloo"
    limit = datetime.timedelta(seconds=collective_seconds or COLLECTIVE_SECONDS[backend])
    if debug:
        dist.set_debug_level(dist.DebugLevel.DETAIL)  # type: ignore[attr-defined]
    # No rank continues before all ranks have joined: a rank that is done at once would leave while another connects.
    os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
    late = limit if store is not None else max(limit, datetime.timedelta(seconds=JOIN_SECONDS))
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=late)
    if store is None:
        dist.distributed_c10d._set_pg_timeout(limit)
    del os.environ["TORCH_DIST_INIT_BARRIER"]  # a group that a rank makes later may have a shorter limit
    return own_device


def as_rank(train: Callable[..., int]) -> Callable[..., int]:
    """Returns `train(options, ...)` as a rank: of torchrun, or else the only rank of a world in this process."""

    def train_as_rank(options: Any, *others: Any) -> int:
        if launched_by_torchrun():
            join(options.device)
        else:
            join(options.device, store=dist.HashStore(), rank=0, ranks=1)  # type: ignore[attr-defined]
        try:
            return train(options, *others)
        finally:
            dist.destroy_process_group()

    return train_as_rank


def device_of_rank(name: str, local_rank: int, local_ranks: int) -> torch.device:
    """Returns the device of a rank: for "auto" CUDA where this machine has a device per rank, else the CPU.

    UserError where there are too few CUDA devices, or where `name` is no device for ranks.
    """
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        name = "cuda" if devices >= local_ranks else "cpu"
    if name in (f"cuda:{number}" for number in range(devices)):
        return torch.device(name)  # all ranks share it
    if name not in ("cpu", "cuda"):
        raise UserError(f"device {name!r} is not for ranks: use auto, cpu, cuda, or cuda:N for all on one GPU.")
    if name == "cuda" and devices < local_ranks:
        if local_ranks == 1:
            raise UserError("this machine has no CUDA device: use --device cpu.")
        raise UserError(
            f"{local_ranks} ranks need {local_ranks} CUDA devices, and this machine has {devices}: "
            "use fewer ranks, or --device cpu."
        )
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)
