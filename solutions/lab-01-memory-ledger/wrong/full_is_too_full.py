"""A budget that is filled to the last byte is taken to be exceeded. Fits means at most the budget, not less."""

EXERCISE = "largest_micro_batch"
FAILS = ("largest_micro_batch/exactly",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def largest_micro_batch(peak, budget):
    if peak(1) >= budget:
        return 0
    low, high = 1, 2
    while peak(high) < budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if peak(middle) < budget:
            low = middle
        else:
            high = middle
    return low
