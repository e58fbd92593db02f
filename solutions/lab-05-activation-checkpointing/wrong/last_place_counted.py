"""One hook for all, made in a loop. A function looks up the loop's variable when it runs, and by then it is the last
one: every run is counted for the last block."""

EXERCISE = "runs_per_block"
FAILS = ("runs_per_block/counts",)
READ = "handbook/memory.md#how-many-segments"


def runs_per_block(blocks, step):
    counts, handles = [0] * len(blocks), []
    for place, block in enumerate(blocks):

        def count(module, inputs):
            counts[place] += 1  # noqa: B023

        handles.append(block.register_forward_pre_hook(count))
    try:
        step()
    finally:
        for handle in handles:
            handle.remove()
    return counts
