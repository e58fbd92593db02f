"""Real ranks for probes: many processes beside the learner's code, forked from the probe's own in milliseconds.

A fork is safe while its parent has started no threads, and backward may start some. So a probe makes its inputs, and
leaves every computation, even that on one process to compare with, to ranks.
"""

from collections.abc import Callable
from typing import Any

from rankzero.exercises.untouched import Untouched
from rankzero.learn.world import WorldError, run_world

SECONDS = 3.0  # a right answer takes a tenth of that
OTHERS: Untouched | None = None  # what is not the learner's, as the probe's process has found it


def on_ranks(function: Callable[..., Any], ranks: int, *args: Any, seconds: float = SECONDS, debug: bool = True) -> Any:
    """What `function(*args)` returns in each of `ranks` processes with a gloo group, by rank.

    WorldTimeoutError where a rank has not answered after `seconds`, WorldError where one fails: both say where. A rank
    fails too if something that is not the learner's has changed in it: its process ends before anyone else could look.
    """

    def watched(*args: Any) -> Any:
        value = function(*args)
        if OTHERS and (changed := OTHERS.changed()):
            raise RuntimeError(f"the code changes {changed}, which is not its own")
        return value

    values = run_world(watched, ranks, *args, seconds=seconds, debug=debug, start="fork")
    if len(values) != ranks:
        raise WorldError(f"{len(values)} of {ranks} ranks answered.")
    return values
