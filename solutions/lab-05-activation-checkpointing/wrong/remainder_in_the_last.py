"""The last segment takes all that is left over. It can be nearly twice as long as the others, and it runs again when
the inputs of all segments are still there: the peak is the highest possible."""

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

    size = len(blocks) // segments
    for place in range(segments):
        x = checkpoint(run(place * size, len(blocks) if place == segments - 1 else (place + 1) * size), x)
    return x
