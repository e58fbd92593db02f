"""One sequence is taken to fit always. Where the weights alone fill the device nothing fits, and 1 is the answer
that runs out of memory."""

EXERCISE = "largest_micro_batch"
FAILS = ("largest_micro_batch/nothing",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def largest_micro_batch(peak, budget):
    low, high = 1, 2
    while peak(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if peak(middle) <= budget:
            low = middle
        else:
            high = middle
    return low
