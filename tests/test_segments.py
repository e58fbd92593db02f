"""Segments of recomputation: the formula of the peak agrees with the timeline, with Lab 05 and with a GPT's tensors."""

import pytest

from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.activations import kept_tensors
from rankzero.ledger.recipes import RECIPES
from rankzero.ledger.segments import even, kept_over_a_step, lengths_of_lowest_peak, peak_of_lengths


@pytest.mark.parametrize("inside", [1, 3, 16])
def test_the_peak_is_the_highest_moment_of_the_step(inside: int) -> None:
    for segments in range(1, 33):
        lengths = even(32, segments)
        assert sum(lengths) == 32
        assert peak_of_lengths(lengths, inside) == max(kept_over_a_step(lengths, inside))


@pytest.mark.parametrize(("blocks", "inside"), [(1, 4), (7, 2), (16, 16), (64, 1), (64, 16)])
def test_the_lowest_peak_fits_and_one_less_does_not(blocks: int, inside: int) -> None:
    lengths = lengths_of_lowest_peak(blocks, inside)
    peak = int(peak_of_lengths(lengths, inside))
    assert sum(lengths) == blocks
    assert all(peak <= peak_of_lengths(even(blocks, segments), inside) for segments in range(1, blocks + 1))
    assert sum((peak - 1 - segment) // inside for segment in range(peak)) < blocks


@pytest.mark.parametrize(("layers", "boundary", "inside"), [(4, 1, 3), (16, 2, 2), (64, 1, 16), (30, 5, 40)])
def test_lab_05_chooses_the_number_of_segments_by_the_same_peak(layers: int, boundary: int, inside: int) -> None:
    best = load(find_lab("05").reference).best_segments(layers, boundary, inside)
    peaks = [peak_of_lengths(even(layers, segments), inside / boundary) for segments in range(1, layers + 1)]
    assert best == peaks.index(min(peaks)) + 1


def test_a_gpt_block_keeps_16_times_its_input() -> None:
    config = GPTConfig(vocab_size=1)
    kept = [tensor for tensor in kept_tensors(config, RECIPES["fp32"]) if tensor.where == "block"]
    assert sum(tensor.count // config.hidden_dim for tensor in kept) == 16
