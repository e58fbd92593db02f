"""Sizes are tried one after another. Right, and a prediction for each sequence of the answer: double until it does
not fit, then halve the range."""

EXERCISE = "largest_micro_batch"
FAILS = ("largest_micro_batch/calls",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def largest_micro_batch(peak, budget):
    batch_size = 0
    while peak(batch_size + 1) <= budget:
        batch_size += 1
    return batch_size
