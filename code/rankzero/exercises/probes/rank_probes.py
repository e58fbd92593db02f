"""Rank probes: running a probe's function on several ranks, processes forked from the probe's own in milliseconds.

A fork is safe only while its parent has started no threads, and a backward pass may start threads. So a probe only
makes inputs; ranks do every computation, including the single-process result for the comparison.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch._C._distributed_c10d as c10d
import torch.distributed as dist

from rankzero.exercises.probes.argument_notes import NOTES, nothing_text
from rankzero.exercises.probes.error_advice import advice_on
from rankzero.exercises.probes.loader import (
    called_none_text,
    caller_text,
    source_lines,
    with_period,
    with_source_lines,
)
from rankzero.exercises.probes.tamper_check import TamperCheck, tamper_text
from rankzero.learn.distributed.rank import COLLECTIVE_SECONDS
from rankzero.learn.distributed.rank_failures import MISSED, NO_END
from rankzero.learn.distributed.work_clock import SLOWEST
from rankzero.learn.distributed.world import WorldError, WorldTimeoutError, run_world

SECONDS = 3.0  # ten times as long as a correct solution takes
IDLE_SECONDS = 0.5  # after which ranks that all sleep wait for each other
LEARNER: tuple[Path, tuple[str, ...]] | None = None  # the file, and the functions of the exercise under check
TAMPER_CHECK: TamperCheck | None = None  # made in the probe's process, before the learner's file is loaded
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


# The group's store is for numbers between ranks that no collective counts. Only a probe's own signals go through it.
_STORE = {name: getattr(c10d.Store, name) for name in ("set", "get", "add", "wait", "append", "multi_set", "multi_get")}
_STORE |= {name: getattr(c10d.Store, name) for name in ("compare_set", "check", "queue_push", "queue_pop")}


def _refuse_store(*_: Any, **__: Any) -> NoReturn:
    """Replaces a store's methods while a learner's code runs."""
    raise RuntimeError("the group's store is not for data: send it by a function of torch.distributed")


@contextmanager
def _closed_store() -> Iterator[None]:
    """Makes the methods of stores fail."""
    for name in _STORE:
        setattr(c10d.Store, name, _refuse_store)
    try:
        yield
    finally:
        for name, method in _STORE.items():
            setattr(c10d.Store, name, method)


def let_go_on() -> None:
    """Ends `wait_to_go_on` on the other ranks."""
    _STORE["set"](dist.distributed_c10d._get_default_store(), "go on", "yes")


def wait_to_go_on() -> None:
    """Waits until a rank calls `let_go_on`."""
    _STORE["wait"](dist.distributed_c10d._get_default_store(), ["go on"])


@dataclass(frozen=True)
class Place:
    """Where a rank was when the time was over: the line of the learner's file, or no file.

    `call` is the function of torch.distributed in which the rank waits, or empty.
    """

    call: str
    file: str
    line: int
    function: str
    done: bool

    def __str__(self) -> str:
        if self.done:
            return "has returned"
        if not self.file:
            return "is in the check's own code"
        where = f"{self.file}, line {self.line}, in {self.function}"
        return f"waits in {self.call} ({where})" if self.call else f"is at {where}"


class StuckRanksError(WorldTimeoutError):
    """Ranks that were not finished in time, with the place of each."""

    def __init__(self, text: str, cause: str, places: list[Place]) -> None:
        super().__init__(text, cause)
        self.places = places


def places_of(error: WorldTimeoutError) -> list[Place]:
    """Returns the place of each rank, by rank, from the report of a world that was not finished in time."""
    places = {}
    for rank, report in re.findall(r"rank (\d+)(?: of \d+|:)? was (.*)", str(error)):
        call = re.match(r"inside (\w+), called", report)
        where = re.search(r"at (.*?\.py), line (\d+), in (\S{1,40})", report)
        is_learners = where and where[1] != "probes.py"
        file, line, function = (where[1], int(where[2]), where[3]) if where and is_learners else ("", 0, "")
        places[int(rank)] = Place(call[1] if call else "", file, line, function, report.startswith("done"))
    return [places[rank] for rank in sorted(places)]


def deadlock_text(places: list[Place]) -> str:
    """Returns a sentence about ranks that wait for each other; empty if no rank waits in a call of its own."""
    waiting = next((rank for rank, place in enumerate(places) if place.call and place.file), None)
    if waiting is None:
        return ""
    place = places[waiting]
    other = next((rank for rank, its in enumerate(places) if (its.call, its.line) != (place.call, place.line)), None)
    if other is None:
        return f"the ranks wait for each other forever: every rank {place}"
    told = f"{place} for rank {other}, which never enters it: rank {other} {places[other]}"
    return f"rank {waiting} {told}"


def run_on_ranks(
    function: Callable[..., Any], ranks: int, *args: Any, seconds: float = SECONDS, debug: bool = True
) -> Any:
    """Returns the results of `function(*args)` in `ranks` processes with a gloo group, by rank.

    StuckRanksError if all ranks sleep, or if a rank runs longer than `seconds`, not counting its waits for a core;
    WorldError if a rank fails, or has changed a function that the learner's code does not define. Both name the rank
    and the line.
    """

    def call_and_check(*args: Any) -> Any:
        check = TAMPER_CHECK
        if check is None:
            with _closed_store():
                return function(*args), NOTES
        unchanged = check.comparison()
        try:
            with _closed_store():
                value = function(*args)  # may change the check, but nothing in this frame
        except Exception as error:
            if isinstance(error, TypeError | AttributeError):
                error.args = (f"{error}{nothing_text(error) or called_none_text(error)}",)
            if LEARNER and (caller := caller_text(error, *LEARNER)):
                error.add_note(caller)
            raise
        if not unchanged():
            raise RuntimeError(tamper_text("the code", check.changed()))
        return value, NOTES

    # gloo's own limit, if it came first, would report the waiting rank
    late = seconds * SLOWEST + COLLECTIVE_SECONDS["gloo"]
    try:
        values = run_world(
            call_and_check,
            ranks,
            *args,
            seconds=seconds,
            debug=debug,
            start="fork",
            collective_seconds=late,
            idle_seconds=IDLE_SECONDS,
        )
    except WorldTimeoutError as error:
        places = places_of(error)
        raise StuckRanksError(deadlock_text(places) or str(error), error.cause, places) from None
    if len(values) != ranks:
        raise WorldError(f"{len(values)} of {ranks} ranks answered.")
    NOTES.update(*(notes for _, notes in values))
    return [value for value, _ in values]


def failure_text(text: str, file: Path) -> str:
    """Returns the text of a WorldError for the learner whose `file` ran: with a line of the file, without a probe's.

    Ranks that fail for the same reason are one line.
    """
    text = re.sub(r" \(probes\.py, line \d+, in [^)]*\)", "", text)
    text = re.sub(r"(at )?probes\.py, line \d+, in \w+", "in the check, outside of your code", text)
    text = text.replace("SystemExit: None", "called sys.exit()")
    text = _without_waiting_ranks(text)
    ranks = [re.fullmatch(r"\s*rank \d+(?: of (\d+))?: (.*)", line) for line in text.splitlines()]
    if (
        len(ranks) > 1
        and len({rank and rank[2] for rank in ranks}) == 1
        and ranks[0]
        and ranks[0][1] == str(len(ranks))
    ):
        text = f"each of {len(ranks)} ranks: {ranks[0][2]}"
    if advice := advice_on(text, "\n".join(source_lines(text, file))):
        first, *others = text.split("\n")
        text = "\n".join([f"{with_period(first)} {advice}", *others])
    return with_source_lines(text, file)


def _without_waiting_ranks(text: str) -> str:
    """Returns a world's report with one line for all ranks that only waited for the rank that failed."""
    lines = text.splitlines()
    waits = [re.match(rf"\s*rank (\d+): {MISSED} (\d+){NO_END}", line) for line in lines]
    waiting = [match for match in waits if match]
    if not waiting:
        return text
    *numbers, last = [match[1] for match in waiting]
    who = f"Ranks {', '.join(numbers)} and {last}" if numbers else f"Rank {last}"
    if len(waiting) == len(lines) - 1 > 1:
        who = "The other ranks"
    failed = [line for line, match in zip(lines, waits, strict=True) if not match]
    if not any(", line " in line for line in failed):  # the lines at which the others wait are all that is known
        return text
    return "\n".join([*failed, f"{who} waited for rank {waiting[0][2]}."])
