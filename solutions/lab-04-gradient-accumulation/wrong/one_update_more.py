"""micro_batches // k + 1 adds an update for what is left, also where nothing is. With a multiple of k it is one too
many in each pass."""

EXERCISE = "schedule"
FAILS = ("schedule/count",)
READ = "handbook/gradient-mechanics.md#everything-else-happens-once-an-update"


def count_updates(micro_batches, k, epochs):
    return epochs * (micro_batches // k + 1)
