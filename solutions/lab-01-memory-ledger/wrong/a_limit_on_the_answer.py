"""The search begins with an upper limit that seems large enough. A small model on a large device exceeds it one day:
let the doubling find the limit."""

EXERCISE = "largest_micro_batch"
FAILS = ("largest_micro_batch/calls",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def largest_micro_batch(peak, budget):
    low, high = 0, 1024
    while low < high:
        middle = (low + high + 1) // 2
        if peak(middle) <= budget:
            low = middle
        else:
            high = middle - 1
    return low
