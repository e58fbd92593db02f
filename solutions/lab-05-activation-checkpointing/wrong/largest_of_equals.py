"""Of several numbers of segments with the same peak this takes the largest. Each segment is one more node and one
more input between forward and backward, for nothing."""

EXERCISE = "segments"
FAILS = ("segments/best",)
READ = "handbook/memory.md#how-many-segments"


def best_segments(layers, boundary, inside):
    def peak(segments):
        short, longer = divmod(layers, segments)
        return max(before * boundary + (short + (before < longer)) * inside for before in range(segments))

    return min(range(layers, 0, -1), key=peak)
