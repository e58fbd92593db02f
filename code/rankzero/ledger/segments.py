"""Recomputation in segments: which activations are in memory over a step, and the peak, by the segments' lengths.

The unit is a block's input. `inside` is the size of all tensors that a block keeps for backward, its input included. A
segment is a sequence of blocks of which only the first input is kept until backward computes the rest again.
"""


def even(blocks: int, segments: int) -> list[int]:
    """Returns the lengths of even segments, in blocks, longer ones first."""
    short, longer = divmod(blocks, segments)
    return [short + (index < longer) for index in range(segments)]


def peak_of_lengths(lengths: list[int], inside: float) -> float:
    """Returns the highest memory of backward, in inputs: a segment's blocks, and the inputs of earlier segments.

    A segment's own input is among the tensors of its first block, so it counts once.
    """
    return max(segment + length * inside for segment, length in enumerate(lengths))


def lengths_of_lowest_peak(blocks: int, inside: int) -> list[int]:
    """Returns the lengths of the segments, in blocks, whose peak is the lowest of all; longer ones first."""
    limit = inside
    while sum((limit - segment) // inside for segment in range(limit)) < blocks:
        limit += 1
    lengths: list[int] = []
    while (left := blocks - sum(lengths)) > 0:
        lengths.append(min(left, (limit - len(lengths)) // inside))
    return lengths


def kept_over_a_step(lengths: list[int], inside: float) -> list[float]:
    """Returns the memory after each block of forward and backward, in inputs; the highest number is the peak.

    Forward keeps one input per segment. Backward computes the tensors of one segment at a time and frees them block by
    block. See `plain_step` for a step without recomputation.
    """
    forward = [float(segment + 1) for segment, length in enumerate(lengths) for _ in range(length)]
    backward = []
    for segment in reversed(range(len(lengths))):
        for left in range(lengths[segment], 0, -1):
            backward.append(segment + left * inside)
    return forward + backward


def plain_step(blocks: int, inside: float) -> list[float]:
    """Returns the memory after each block of forward and backward without recomputation, in inputs."""
    return [inside * (block + 1) for block in range(blocks)] + [inside * left for left in range(blocks, 0, -1)]
