"""The segments are checkpointed, and each block inside as well. A block then runs three times: for the loss, for the
segment's second run, and for its own. The peak is lower, the price twice as high, and two runs were agreed on."""

from exercises import checkpoint

EXERCISE = "segments"
FAILS = (
    "segments/cut",
    "segments/ends",
)
READ = "handbook/memory.md#how-many-segments"


def checkpoint_segments(blocks, x, segments):
    def run(start, end):
        def segment(x):
            for block in blocks[start:end]:
                x = checkpoint(block, x)
            return x

        return segment

    short, longer = divmod(len(blocks), segments)
    start = 0
    for place in range(segments):
        end = start + short + (place < longer)
        x = checkpoint(run(start, end), x)
        start = end
    return x
