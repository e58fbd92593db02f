"""The peak is taken to grow by the same bytes with every sequence, and the answer is computed from two
predictions. Allocators round, so the line misses by one near the budget: measure, or ask for the sizes around
it."""

EXERCISE = "largest_micro_batch"
FAILS = ("largest_micro_batch/fits",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def largest_micro_batch(peak, budget):
    first = peak(1)
    if first > budget:
        return 0
    each = peak(2) - first
    return 1 + (budget - first) // each
