"""Explorable: pipeline schedules and their bubbles, by stages and micro-batches."""

from typing import Any

from rankzero.ledger.plan.pipeline_schedule import begin_times, bubble, gpipe, in_flight, order

STAGES, MICRO_BATCHES = (2, 4, 8), (1, 2, 4, 8, 16)


def timetable(schedule: str, stages: int, micro_batches: int) -> dict[str, Any]:
    """Returns the beginnings and actions of each stage, and the most micro-batches that stage 1 keeps at once.

    An action is its micro-batch from 1 on, negative for backward. Interleaved, a stage has two runs of blocks, and
    times count halves; `micro_batches` is a multiple of `stages`.
    """
    runs = 2 if schedule == "interleaved" else 1
    each = [
        gpipe(micro_batches) if schedule == "GPipe" else order(stage, stages, micro_batches, runs)
        for stage in range(stages)
    ]
    return {
        "begins": begin_times(each, 1, 2),
        "actions": [[(a.micro_batch + 1) * (1 if a.forward else -1) for a in actions] for actions in each],
        "kept": max(sum(counts.values()) for counts in in_flight(each[0])),
    }


FORMULAS = (bubble,)
DATA = {
    schedule: {
        stages: {
            micro_batches: timetable(schedule, stages, micro_batches)
            for micro_batches in MICRO_BATCHES
            if schedule != "interleaved" or micro_batches % stages == 0
        }
        for stages in STAGES
    }
    for schedule in ("GPipe", "1F1B", "interleaved")
}
