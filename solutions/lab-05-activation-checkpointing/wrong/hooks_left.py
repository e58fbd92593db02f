"""The hooks are never removed. Each later step goes on counting into a list that nobody reads, and each measurement
adds more hooks: a slow leak in a long run."""

EXERCISE = "runs_per_block"
FAILS = ("runs_per_block/removed",)
READ = "labs/lab-05-activation-checkpointing.md#exercises"


def runs_per_block(blocks, step):
    counts = [0] * len(blocks)

    def counter(place):
        def count(module, inputs):
            counts[place] += 1

        return count

    for place, block in enumerate(blocks):
        block.register_forward_pre_hook(counter(place))
    step()
    return counts
