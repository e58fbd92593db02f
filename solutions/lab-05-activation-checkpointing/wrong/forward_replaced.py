"""Each block's forward is replaced by one that counts, and the old one is put back as an attribute of the block. That
shadows the method of its class for good: the block is not what it was, and a change of the class no longer reaches
it."""

EXERCISE = "runs_per_block"
FAILS = ("runs_per_block/removed",)
READ = "labs/lab-05-activation-checkpointing.md#exercises"


def runs_per_block(blocks, step):
    counts = [0] * len(blocks)

    def counted(forward, place):
        def run(*inputs):
            counts[place] += 1
            return forward(*inputs)

        return run

    forwards = [block.forward for block in blocks]
    for place, block in enumerate(blocks):
        block.forward = counted(block.forward, place)
    try:
        step()
    finally:
        for block, forward in zip(blocks, forwards, strict=True):
            block.forward = forward
    return counts
