"""Each block is checkpointed alone, whatever number of segments was asked for. That is one good policy among several,
and it keeps one input a block."""

from exercises import checkpoint

EXERCISE = "segments"
FAILS = (
    "segments/cut",
    "segments/memory",
    "segments/ends",
)
READ = "handbook/memory.md#how-many-segments"


def checkpoint_segments(blocks, x, segments):
    for block in blocks:
        x = checkpoint(block, x)
    return x
