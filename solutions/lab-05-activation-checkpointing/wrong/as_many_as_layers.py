"""A segment a layer, because a block keeps so much more than its input. True of short models. In a deep one the
inputs add up, and segments of two or three have the lower peak."""

EXERCISE = "segments"
FAILS = ("segments/best",)
READ = "handbook/memory.md#how-many-segments"


def best_segments(layers, boundary, inside):
    return layers
