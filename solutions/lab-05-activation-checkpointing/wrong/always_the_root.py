"""The square root of the number of layers is best only where a block keeps as much as its input. A transformer block
keeps about 16 times its input, and then more, shorter segments have the lower peak."""

import math

EXERCISE = "segments"
FAILS = ("segments/best",)
READ = "handbook/memory.md#how-many-segments"


def best_segments(layers, boundary, inside):
    return max(1, round(math.sqrt(layers)))
