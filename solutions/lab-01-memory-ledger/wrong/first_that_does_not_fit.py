"""The first size that does not fit is returned. The loop stops one too late: the answer is the one before."""

EXERCISE = "largest_micro_batch"
FAILS = (
    "largest_micro_batch/fits",
    "largest_micro_batch/exactly",
    "largest_micro_batch/nothing",
)
READ = "handbook/memory.md#seven-kinds-four-moments"


def largest_micro_batch(peak, budget):
    high = 1
    while peak(high) <= budget:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if peak(middle) <= budget:
            low = middle
        else:
            high = middle
    return high
