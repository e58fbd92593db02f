"""The formula that sets boundary * s equal to inside * L / s and rounds. It is the right idea and a few segments off:
lengths are whole numbers, the inputs behind a segment are gone, and its own input counts as its inside."""

import math

EXERCISE = "segments"
FAILS = ("segments/best",)
READ = "handbook/memory.md#how-many-segments"


def best_segments(layers, boundary, inside):
    return min(layers, max(1, round(math.sqrt(layers * inside / boundary))))
