"""Micro-batches are counted, not updates. A cosine of this length is only 1/k of the way down when the run ends: it
trains at nearly the peak rate to the last."""

EXERCISE = "schedule"
FAILS = ("schedule/count",)
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def count_updates(micro_batches, k, epochs):
    return epochs * micro_batches
