"""Turns of a ring: each rank sends one part per turn, and the last turn leaves what the collective promises."""

import pytest

from rankzero.figures.ring_turns import State, all_gather_turns, arrived_part, reduce_scatter_turns


def held(state: State) -> list[list[int]]:
    """Returns the parts that each rank holds."""
    return [[part for part, summed in enumerate(parts) if summed] for parts in state]


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_a_reduce_scatter_leaves_each_rank_with_its_part_of_the_sum(ranks: int) -> None:
    states = reduce_scatter_turns(ranks)
    assert len(states) == ranks, "the start and N - 1 turns"
    assert held(states[-1]) == [[rank] for rank in range(ranks)]
    assert all(states[-1][rank][rank] == frozenset(range(ranks)) for rank in range(ranks))


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_an_all_gather_gives_each_rank_every_part(ranks: int) -> None:
    states = all_gather_turns(ranks)
    assert len(states) == ranks
    assert held(states[0]) == [[rank] for rank in range(ranks)]
    assert all(parts == [frozenset({part}) for part in range(ranks)] for parts in states[-1])


@pytest.mark.parametrize("turns", [reduce_scatter_turns, all_gather_turns])
def test_in_each_turn_a_rank_gets_one_part_that_its_left_neighbor_held(turns: object) -> None:
    assert callable(turns)
    states = turns(4)
    assert arrived_part(states, 0, 0) is None
    for turn in (1, 2, 3):
        arrived = [arrived_part(states, turn, rank) for rank in range(4)]
        assert sorted(part for part in arrived if part is not None) == [0, 1, 2, 3]
        assert all(states[turn - 1][rank - 1][part] for rank, part in enumerate(arrived))
