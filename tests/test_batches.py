"""Batches are reproducible and resumable, and never reach beyond the last token."""

import pytest
import torch

from rankzero.errors import UserError
from rankzero.learn.data.batches import check_length, random_batch, validation_batches

TOKENS = torch.arange(1000)


def batch(step: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return random_batch(TOKENS, step=step, seed=seed, batch_size=8, block_size=16)


def test_targets_are_the_next_tokens() -> None:
    x, y = batch(step=3)
    assert x.shape == y.shape == (8, 16)
    assert torch.equal(y, x + 1)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    later = batch(step=7)
    for step in range(7):
        batch(step)
    torch.manual_seed(99)
    assert torch.equal(batch(step=7)[0], later[0])
    assert not torch.equal(batch(step=8)[0], later[0])
    assert not torch.equal(batch(step=7, seed=1)[0], later[0])
    # (seed, step) must not collapse into their sum
    assert not torch.equal(batch(step=1, seed=0)[0], batch(step=0, seed=1)[0])


def test_every_start_can_be_drawn_and_no_sequence_exceeds_the_text() -> None:
    tokens = torch.arange(20)
    draws = [random_batch(tokens, step=step, seed=0, batch_size=4, block_size=16)[0] for step in range(200)]
    assert set(torch.cat(draws)[:, 0].tolist()) == {0, 1, 2, 3}


def test_validation_windows_are_the_same_every_time_and_do_not_overlap() -> None:
    def windows() -> torch.Tensor:
        return torch.cat([x for x, _ in validation_batches(TOKENS, count=3, batch_size=8, block_size=16)]).flatten()

    assert torch.equal(windows(), windows())
    assert len(windows().unique()) == len(windows()) == 3 * 8 * 16
    assert windows().max() > 900, "windows should be spread over the whole text"


def test_validation_of_the_whole_text_ends_in_a_smaller_batch() -> None:
    batches = list(validation_batches(TOKENS, count=100, batch_size=8, block_size=16))
    assert [len(x) for x, _ in batches] == [8] * 7 + [6]  # 62 windows fit into 1000 tokens
    assert all(torch.equal(y, x + 1) for x, y in batches)


def test_the_error_for_a_short_text_names_both_lengths() -> None:
    check_length(TOKENS[:17], 16)
    with pytest.raises(UserError, match=r"text has 16 tokens, too short for one sequence of 16 and its targets \(17\)"):
        random_batch(TOKENS[:16], step=0, seed=0, batch_size=1, block_size=16)
