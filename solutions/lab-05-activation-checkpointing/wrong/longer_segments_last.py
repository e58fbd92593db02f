"""The lengths are right and their order is not. The last segment peaks on top of the inputs of all others, so it
should be a short one."""

from exercises import checkpoint

EXERCISE = "segments"
FAILS = ("segments/cut",)
READ = "handbook/memory.md#how-many-segments"


def checkpoint_segments(blocks, x, segments):
    def run(start, end):
        def segment(x):
            for block in blocks[start:end]:
                x = block(x)
            return x

        return segment

    short, longer = divmod(len(blocks), segments)
    start = 0
    for place in range(segments):
        end = start + short + (place >= segments - longer)
        x = checkpoint(run(start, end), x)
        start = end
    return x
