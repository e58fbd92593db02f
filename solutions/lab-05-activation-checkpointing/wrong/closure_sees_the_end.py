"""The function made in the loop looks start and end up when it runs. In backward it runs after the loop, where both
are the number of blocks: no block runs again, and the gradient passes each segment as if it were not there."""

from exercises import checkpoint

EXERCISE = "segments"
FAILS = ("segments/cut", "segments/gradients", "segments/ends")
READ = "labs/lab-05-activation-checkpointing.md#segments"


def checkpoint_segments(blocks, x, segments):
    short, longer = divmod(len(blocks), segments)
    start = 0
    for place in range(segments):
        end = start + short + (place < longer)

        def segment(y):
            for block in blocks[start:end]:  # noqa: B023
                y = block(y)
            return y

        x = checkpoint(segment, x)
        start = end
    return x
