"""The peak is taken as all segments' inputs and the longest segment's inside. They never meet: the longest comes
first, and when it runs again the inputs of those behind it are gone."""

EXERCISE = "segments"
FAILS = ("segments/best",)
READ = "handbook/memory.md#how-many-segments"


def best_segments(layers, boundary, inside):
    return min(range(1, layers + 1), key=lambda segments: segments * boundary + -(-layers // segments) * inside)
