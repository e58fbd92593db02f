"""Pipeline schedules: the order in which a rank runs forward and backward of its micro-batches, and their replay.

One forward, one backward (1F1B, PipeDream and Megatron-LM): a rank first runs as many forwards as it takes until the
first gradient can come back, then alternates. With interleaving a rank has several runs of blocks ("chunks"), and
micro-batches pass each rank several times (arXiv 2104.04473).
"""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """Forward or backward of one micro-batch through one chunk of a rank's blocks."""

    forward: bool
    micro_batch: int
    chunk: int = 0


def order(stage: int, stages: int, micro_batches: int, interleave: int = 1) -> list[Action]:
    """Returns the 1F1B actions of pipeline rank `stage`; interleaved, `micro_batches` is a multiple of `stages`."""
    total = micro_batches * interleave
    ahead = stages - stage - 1
    if interleave > 1:
        ahead = 2 * ahead + (interleave - 1) * stages
    forwards = [_action(True, index, stages, interleave) for index in range(total)]
    backwards = [_action(False, index, stages, interleave) for index in range(total)]
    ahead = min(ahead, total)
    alternating = [action for pair in zip(forwards[ahead:], backwards[: total - ahead], strict=True) for action in pair]
    return [*forwards[:ahead], *alternating, *backwards[total - ahead :]]


def gpipe(micro_batches: int) -> list[Action]:
    """Returns all forwards, then all backwards: the same bubble, and every micro-batch's activations at once."""
    return [Action(forward, index) for forward in (True, False) for index in range(micro_batches)]


def _action(forward: bool, index: int, stages: int, interleave: int) -> Action:
    if interleave == 1:
        return Action(forward, index)
    group, within = divmod(index, stages * interleave)
    chunk, micro_batch = divmod(within, stages)
    return Action(forward, group * stages + micro_batch, chunk if forward else interleave - 1 - chunk)


def in_flight(actions: list[Action]) -> list[dict[int, int]]:
    """Returns every state after a forward: the number of forwards that wait for their backward, by chunk."""
    now: Counter[int] = Counter()
    states: dict[frozenset[tuple[int, int]], dict[int, int]] = {}
    for action in actions:
        now[action.chunk] += 1 if action.forward else -1
        if action.forward:
            states[frozenset(now.items())] = dict(now)
    return list(states.values())


def replay(orders: list[list[Action]], forward: float = 1.0, backward: float = 2.0) -> float:
    """Returns the time at which the last rank is done; see `begin_times`."""
    begins = begin_times(orders, forward, backward)
    return max(
        b[-1] + (forward if actions[-1].forward else backward) for b, actions in zip(begins, orders, strict=True)
    )


def begin_times(orders: list[list[Action]], forward: float = 1.0, backward: float = 2.0) -> list[list[float]]:
    """Returns the time at which each action of each rank begins, if a transfer takes no time.

    Rank s runs `orders[s]` in order. Chunk c of rank s is the model's run number c * ranks + s: its forward waits
    for the run before, its backward for its own forward and for the backward of the run after.
    """
    stages = len(orders)
    runs = stages * (1 + max(action.chunk for action in orders[0]))
    done: dict[tuple[bool, int, int], float] = {}
    clocks = [0.0] * stages
    begins: list[list[float]] = [[] for _ in orders]
    while any(len(begun) < len(actions) for begun, actions in zip(begins, orders, strict=True)):
        before = len(done)
        for rank, actions in enumerate(orders):
            while len(begins[rank]) < len(actions):
                action = actions[len(begins[rank])]
                run = action.chunk * stages + rank
                needs = (True, action.micro_batch, run - 1) if action.forward else (False, action.micro_batch, run + 1)
                own = (True, action.micro_batch, run)
                waits = [needs] if 0 <= needs[2] < runs else []
                waits += [] if action.forward else [own]
                if any(need not in done for need in waits):
                    break
                begins[rank].append(max([clocks[rank], *(done[need] for need in waits)]))
                clocks[rank] = begins[rank][-1] + (forward if action.forward else backward)
                done[action.forward, action.micro_batch, run] = clocks[rank]
        if len(done) == before:
            raise ValueError("these orders wait for one another: no rank can go on.")
    return begins


def bubble(stages: int, micro_batches: int, interleave: int = 1) -> float:
    """Returns the share of the step in which a rank is idle: (p-1) / (vm + p-1), the same for GPipe and 1F1B."""
    return (stages - 1) / (interleave * micro_batches + stages - 1)


def gathers(actions: list[Action], *, keeps: bool) -> Counter[tuple[bool, int]]:
    """Returns the number of gathers of a chunk's sharded weights, by (forward or not, chunk).

    With `keeps` weights stay gathered from a forward until the next backward; otherwise they are freed after each use.
    """
    gathered: set[int] = set()
    counts: Counter[tuple[bool, int]] = Counter()
    for action in actions:
        counts[action.forward, action.chunk] += action.chunk not in gathered
        if keeps and action.forward:
            gathered.add(action.chunk)
        else:
            gathered.discard(action.chunk)
    return counts
