"""Every segment gets len(blocks) // segments blocks, and the blocks that are left over never run. The model is
shallower than its configuration says, and those weights have no gradient."""

from exercises import checkpoint

EXERCISE = "segments"
FAILS = (
    "segments/cut",
    "segments/gradients",
)
READ = "handbook/memory.md#how-many-segments"


def checkpoint_segments(blocks, x, segments):
    def run(start, end):
        def segment(x):
            for block in blocks[start:end]:
                x = block(x)
            return x

        return segment

    size = len(blocks) // segments
    for place in range(segments):
        x = checkpoint(run(place * size, (place + 1) * size), x)
    return x
