"""Record of a loop that loads and trains: when each batch was loaded and trained on."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class Moment(NamedTuple):
    """When one batch was loaded and trained on, in seconds of one clock."""

    worker: int
    load_begin: float
    load_end: float
    asked: float  # the loop asked for the batch
    taken: float  # the loop had the batch
    done: float  # the step was over


class Record(NamedTuple):
    """Steps of a loop: their losses, each [models], when their batches were loaded, and the numbers of the samples."""

    losses: list[Tensor]
    moments: list[Moment]
    numbers: list[int]


def seconds_of(moments: Sequence[Moment]) -> tuple[float, float]:
    """Returns the seconds from the first request to the end of the last step, and how many of these were steps."""
    return moments[-1].done - moments[0].asked, sum(moment.done - moment.taken for moment in moments)
