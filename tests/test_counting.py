"""Counting text: the rule holds, the die is fair, a seed repeats, and nobody can beat the floor."""

import torch
import torch.nn.functional as F

from rankzero.learn.data.synthetic_text import FLOOR, VOCAB_SIZE, counting_batches


def test_each_token_follows_the_rule_and_the_die_is_fair() -> None:
    text = counting_batches(50, seed=1)
    assert text.shape == (50, 8, 17)
    die = (text[..., 1:] - 5 * text[..., :-1] - 1) % VOCAB_SIZE
    counts = torch.bincount(die.flatten(), minlength=VOCAB_SIZE)
    assert counts[3:].sum() == 0
    assert (counts[:3] / counts.sum() - 1 / 3).abs().max() < 0.02


def test_whoever_knows_the_rule_is_at_the_floor() -> None:
    text = counting_batches(1, seed=2)[0]
    logits = torch.full((*text[:, :-1].shape, VOCAB_SIZE), float("-inf"))
    for side in range(3):
        logits.scatter_(2, ((5 * text[:, :-1] + 1 + side) % VOCAB_SIZE)[..., None], 0.0)
    assert abs(F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).item() - FLOOR) < 1e-6


def test_a_seed_repeats_and_another_differs() -> None:
    assert torch.equal(counting_batches(3, seed=4), counting_batches(3, seed=4))
    assert not torch.equal(counting_batches(3, seed=4), counting_batches(3, seed=5))
