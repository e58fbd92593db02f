"""Rank probes: running a probe's function on several ranks, processes forked from the probe's own in milliseconds.

A fork is safe only while its parent has started no threads, and a backward pass may start threads. So a probe only
makes its inputs, and leaves every computation to ranks, including the single-process result to compare with.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch._C._distributed_c10d as c10d

from rankzero.exercises.probes.tamper_check import TamperCheck
from rankzero.exercises.probes.time_limits import stretched
from rankzero.learn.distributed.rank import COLLECTIVE_SECONDS
from rankzero.learn.distributed.world import WorldError, run_world

SECONDS = 3.0  # a right answer takes a tenth of that
TAMPER_CHECK: TamperCheck | None = None  # made in the probe's process, before the learner's file ran
# Methods of a group's backend. torch calls them through its dispatcher, where CollectiveCounter counts bytes.
COMMUNICATE = (
    *("_allgather_base", "_reduce_scatter_base", "allgather", "allgather_coalesced", "allreduce"),
    *("allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv"),
    *("recv_anysource", "reduce", "reduce_scatter", "scatter", "send"),
)


def _refuse_backend_call(*_: Any, **__: Any) -> NoReturn:
    """Replaces a backend's methods: a direct call would not be counted."""
    raise RuntimeError("the group's backend is not called directly: use the functions of torch.distributed")


def block_backend_calls() -> None:
    """Makes direct calls of a backend's methods fail, in this process and in its forks."""
    for name in COMMUNICATE:
        setattr(c10d.Backend, name, _refuse_backend_call)


def run_on_ranks(
    function: Callable[..., Any], ranks: int, *args: Any, seconds: float = SECONDS, debug: bool = True
) -> Any:
    """Returns the results of `function(*args)` in `ranks` processes with a gloo group, by rank.

    WorldTimeoutError where a rank has not answered after `seconds`, WorldError where one fails: both say where. A rank
    fails too if something that is not the learner's has changed in it: its process ends before anyone else could look.
    `seconds` are more on a busy machine.
    """

    def watched(*args: Any) -> Any:
        value = function(*args)
        if TAMPER_CHECK and (changed := TAMPER_CHECK.changed()):
            raise RuntimeError(f"the code changes {changed}, which is not its own")
        return value

    limit = min(stretched(seconds), COLLECTIVE_SECONDS["gloo"] - 1)  # gloo would blame the rank that waits
    values = run_world(watched, ranks, *args, seconds=limit, debug=debug, start="fork")
    if len(values) != ranks:
        raise WorldError(f"{len(values)} of {ranks} ranks answered.")
    return values
