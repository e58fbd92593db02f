"""Segments of len(blocks) // segments blocks, and what is left over becomes one more segment. Somebody asked for so
many segments because so many inputs fit; this keeps another."""

from exercises import checkpoint

EXERCISE = "segments"
FAILS = (
    "segments/cut",
    "segments/memory",
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
    for start in range(0, len(blocks), size):
        x = checkpoint(run(start, start + size), x)
    return x
