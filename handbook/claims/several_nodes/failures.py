"""Claims of handbook/several-nodes.md on ranks that do not call the same collective."""

import datetime
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import DebugLevel, get_debug_level, set_debug_level
from torch.nn.parallel import DistributedDataParallel

from rankzero.claims.claim import claim
from rankzero.learn.distributed.world import WorldError, run_world


def outcome(kind: str, detail: bool) -> str:
    """Returns the end of this rank when the ranks do not call the same thing: "ok", or the error's text."""
    level = get_debug_level()
    dist.barrier()  # so that the limit is for the calls, not for ranks that are late to the group
    set_debug_level(DebugLevel.DETAIL if detail else DebugLevel.OFF)
    group = dist.new_group(timeout=datetime.timedelta(seconds=0.5))
    set_debug_level(level)
    x = torch.ones(3 + (kind == "shape") * dist.get_rank())
    message = "ok"
    try:
        if kind == "operation" and dist.get_rank():
            dist.broadcast(x, 0, group=group)
        else:
            dist.all_reduce(x, group=group)
    except RuntimeError as error:
        message = str(error)
    dist.barrier()
    return message


@claim(
    "ranks-that-notice",
    "If one rank all-reduces 3 numbers and the other 4, both raise an error under DETAIL; without it rank 0 goes on.",
    expected={"shape, DETAIL": 2, "shape": 1, "operation, DETAIL": 2, "operation": 2},
    unit="of 2 ranks raise",
)
def ranks_that_notice() -> Mapping[str, float]:
    """Lets two ranks all-reduce different shapes, or one of them broadcast; counts errors, with a limit of 0.5 s."""
    cases = [(kind, detail) for kind in ("shape", "operation") for detail in (True, False)]
    ranks = run_world(lambda: [outcome(*case) != "ok" for case in cases], 2)
    return {f"{kind}{', DETAIL' * detail}": sum(raised) for (kind, detail), *raised in zip(cases, *ranks, strict=True)}


def wraps() -> None:
    """Makes a module data parallel."""
    DistributedDataParallel(nn.Linear(2, 2))


@claim(
    "ddp-under-detail",
    "On the CPU, DDP of PyTorch 2.13 ends its process by a segmentation fault if DETAIL is on, and not otherwise.",
    expected={"DETAIL": True, "off": False},
    unit="killed by SIGSEGV",
)
def ddp_under_detail() -> Mapping[str, bool]:
    """Wraps a layer on 2 ranks in a world that compares calls, and in one that does not."""
    measured = {}
    for name, debug in (("DETAIL", True), ("off", False)):
        cause = ""
        try:
            run_world(wraps, 2, debug=debug)
        except WorldError as error:
            cause = error.cause
        measured[name] = "SIGSEGV" in cause
    return measured
