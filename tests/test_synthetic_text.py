"""Synthetic text: its rule, its random numbers, its seeds, and its lowest loss."""

import torch
import torch.nn.functional as F

from rankzero.learn.data.synthetic_text import LOWEST_LOSS, VOCAB_SIZE, synthetic_batches


def test_each_token_follows_the_rule_with_uniform_random_numbers() -> None:
    text = synthetic_batches(50, seed=1)
    assert text.shape == (50, 8, 17)
    random_numbers = (text[..., 1:] - 5 * text[..., :-1] - 1) % VOCAB_SIZE
    counts = torch.bincount(random_numbers.flatten(), minlength=VOCAB_SIZE)
    assert counts[3:].sum() == 0
    assert (counts[:3] / counts.sum() - 1 / 3).abs().max() < 0.02


def test_predicting_by_the_rule_gives_the_lowest_loss() -> None:
    text = synthetic_batches(1, seed=2)[0]
    logits = torch.full((*text[:, :-1].shape, VOCAB_SIZE), float("-inf"))
    for side in range(3):
        logits.scatter_(2, ((5 * text[:, :-1] + 1 + side) % VOCAB_SIZE)[..., None], 0.0)
    assert abs(F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).item() - LOWEST_LOSS) < 1e-6


def test_the_same_seed_gives_the_same_text_and_another_seed_another_text() -> None:
    assert torch.equal(synthetic_batches(3, seed=4), synthetic_batches(3, seed=4))
    assert not torch.equal(synthetic_batches(3, seed=4), synthetic_batches(3, seed=5))
