"""The hooks are removed after the step, and a step that raises never gets there. Out of memory is an error like any
other, and it is the one that people catch and go on from."""

EXERCISE = "runs_per_block"
FAILS = ("runs_per_block/removed",)
READ = "labs/lab-05-activation-checkpointing.md#exercises"


def runs_per_block(blocks, step):
    counts = [0] * len(blocks)

    def counter(place):
        def count(module, inputs):
            counts[place] += 1

        return count

    handles = [block.register_forward_pre_hook(counter(place)) for place, block in enumerate(blocks)]
    step()
    for handle in handles:
        handle.remove()
    return counts
