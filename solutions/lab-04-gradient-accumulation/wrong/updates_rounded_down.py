"""Integer division rounds down: the update for what is left is not counted. A schedule made with this number ends
before the run does, by one update a pass."""

EXERCISE = "schedule"
FAILS = ("schedule/count",)
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def count_updates(micro_batches, k, epochs):
    return epochs * (micro_batches // k)
