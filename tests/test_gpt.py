"""GPT model: its outputs, its initialization, and the configurations that it refuses."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from rankzero.errors import UserError
from rankzero.learn.models.gpt import GPT, GPTConfig


def make(seed: int = 0, **shape: int) -> GPT:
    torch.manual_seed(seed)
    return GPT(GPTConfig(**{"vocab_size": 96, "block_size": 16, "n_layer": 2, "n_head": 2, "hidden_dim": 32} | shape))


@pytest.mark.parametrize("vocab_size", [65, 96, 1000])
def test_loss_at_initialization_is_close_to_ln_v(vocab_size: int) -> None:
    model = make(vocab_size=vocab_size, hidden_dim=128, n_layer=4)
    tokens = torch.randint(vocab_size, (32, 17))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(vocab_size), abs=0.1)


def test_no_output_depends_on_a_later_token() -> None:
    model = make()
    tokens = torch.randint(96, (1, 16))
    changed = tokens.clone()
    changed[0, 10] = (changed[0, 10] + 1) % 96
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :10], after[:, :10])
    assert not torch.equal(before[:, 10:], after[:, 10:])


def test_parameter_count_agrees_with_the_formula_and_counts_the_tied_matrix_once() -> None:
    model = make(n_layer=4, n_head=4, hidden_dim=128, block_size=64)
    V, T, C, L = 96, 64, 128, 4
    assert model.parameter_count() == V * C + T * C + L * (12 * C**2 + 2 * C) + C == 808_064
    assert model.config.parameter_count() == model.parameter_count()
    assert model.head.weight is model.token_embedding.weight


def test_tying_survives_saving_and_loading() -> None:
    model, other = make(seed=0), make(seed=1)
    other.load_state_dict(model.state_dict())
    assert other.head.weight is other.token_embedding.weight
    tokens = torch.randint(96, (2, 16))
    assert torch.equal(model(tokens), other(tokens))


def test_flops_per_token_agrees_with_a_counter() -> None:
    model = make(hidden_dim=64, n_layer=3)
    tokens = torch.randint(96, (4, 16))
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        model(tokens)
    # The formula counts forward and backward, which is three times forward, and counts the norms' few parameters.
    assert model.flops_per_token() == pytest.approx(3 * counter.get_total_flops() / tokens.numel(), rel=0.01)


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(96, 16, 2, 2, 32, dropout=0.5))
    tokens = torch.randint(96, (2, 16))
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


def test_generate_repeats_with_the_same_seed_and_keeps_the_training_mode() -> None:
    model = make()
    start = torch.zeros(2, 1, dtype=torch.int64)
    draws = [model.generate(start, 30, torch.Generator().manual_seed(1)) for _ in (1, 2)]
    assert draws[0].shape == (2, 31)
    assert torch.equal(draws[0], draws[1])
    assert model.training


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            {"hidden_dim": 130, "n_head": 4},
            "hidden_dim 130 does not divide into 4 attention heads: use a multiple of 4",
        ),
        ({"n_layer": 0}, "n_layer is 0: it must be at least 1"),
        ({"dropout": 1.0}, "dropout is 1.0: it must be at least 0 and below 1"),
    ],
)
def test_impossible_shapes_are_refused(shape: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(**shape)


def test_a_sequence_that_is_too_long_is_refused() -> None:
    with pytest.raises(UserError, match="a sequence of 17 tokens is longer than this GPT's block_size 16"):
        make()(torch.zeros(1, 17, dtype=torch.int64))
