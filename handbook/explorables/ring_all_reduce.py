"""Explorable: a ring all-reduce, turn by turn, with the bytes that each rank has sent."""

from rankzero.figures.content.distributed_data_parallel import ring_states


def sent(turn: int, ranks: int, vector: float) -> float:
    """Returns what each rank has sent after `turn` turns, in units of `vector`: one of `ranks` chunks per turn."""
    return turn / ranks * vector


FORMULAS = (sent,)
# For each number of ranks: after each turn, for each rank and chunk, the ranks whose numbers are in the sum.
DATA = {"states": {ranks: ring_states(ranks) for ranks in range(2, 7)}}
