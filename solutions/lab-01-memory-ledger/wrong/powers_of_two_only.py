"""Only powers of two are tried. Up to half of the memory then stays empty; powers of two are a habit, not a need."""

EXERCISE = "largest_micro_batch"
FAILS = (
    "largest_micro_batch/fits",
    "largest_micro_batch/exactly",
)
READ = "handbook/memory.md#seven-kinds-four-moments"


def largest_micro_batch(peak, budget):
    batch_size = 1
    while peak(batch_size) <= budget:
        batch_size *= 2
    return batch_size // 2
