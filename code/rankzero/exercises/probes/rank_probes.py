"""Real ranks for probes: many processes beside the learner's code, forked from the probe's own in milliseconds.

A fork is safe while its parent has started no threads, and backward may start some. So a probe makes its inputs, and
leaves every computation, even that on one process to compare with, to ranks.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch._C._distributed_c10d as c10d

from rankzero.exercises.probes.tamper_check import TamperCheck
from rankzero.exercises.probes.time_limits import stretched
from rankzero.learn.distributed.rank import COLLECTIVE_SECONDS
from rankzero.learn.distributed.world import WorldError, run_world

SECONDS = 3.0  # a right answer takes a tenth of that
OTHERS: TamperCheck | None = None  # what is not the learner's, as the probe's process has found it
# How a group's backend communicates. torch gets there through its dispatcher, where what is sent is counted.
COMMUNICATE = (
    *("_allgather_base", "_reduce_scatter_base", "allgather", "allgather_coalesced", "allreduce"),
    *("allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv"),
    *("recv_anysource", "reduce", "reduce_scatter", "scatter", "send"),
)


def _refuse_backend_call(*_: Any, **__: Any) -> NoReturn:
    """Stands in for a backend's methods, which a file could call where nobody counts."""
    raise RuntimeError("the group's backend is not called directly: use the functions of torch.distributed")


def block_backend_calls() -> None:
    """Lets nobody call a backend's methods in this process, nor in those that it forks."""
    for name in COMMUNICATE:
        setattr(c10d.Backend, name, _refuse_backend_call)


def run_on_ranks(
    function: Callable[..., Any], ranks: int, *args: Any, seconds: float = SECONDS, debug: bool = True
) -> Any:
    """What `function(*args)` returns in each of `ranks` processes with a gloo group, by rank.

    WorldTimeoutError where a rank has not answered after `seconds`, WorldError where one fails: both say where. A rank
    fails too if something that is not the learner's has changed in it: its process ends before anyone else could look.
    `seconds` are more on a busy machine.
    """

    def watched(*args: Any) -> Any:
        value = function(*args)
        if OTHERS and (changed := OTHERS.changed()):
            raise RuntimeError(f"the code changes {changed}, which is not its own")
        return value

    limit = min(stretched(seconds), COLLECTIVE_SECONDS["gloo"] - 1)  # gloo would blame the rank that waits
    values = run_world(watched, ranks, *args, seconds=limit, debug=debug, start="fork")
    if len(values) != ranks:
        raise WorldError(f"{len(values)} of {ranks} ranks answered.")
    return values
