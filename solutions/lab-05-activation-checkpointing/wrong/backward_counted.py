"""A backward hook counts backward passes. A recomputed block runs forward twice and backward once, so this number is
the same with and without checkpointing, and the recomputation stays invisible."""

EXERCISE = "runs_per_block"
FAILS = ("runs_per_block/counts",)
READ = "handbook/memory.md#recompute-what-and-when"


def runs_per_block(blocks, step):
    counts = [0] * len(blocks)

    def counter(place):
        def count(module, before, after):
            counts[place] += 1

        return count

    handles = [block.register_full_backward_hook(counter(place)) for place, block in enumerate(blocks)]
    try:
        step()
    finally:
        for handle in handles:
            handle.remove()
    return counts
