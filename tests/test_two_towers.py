"""The two-tower contrastive model: its loss, its stages, and that it learns."""

import math

import pytest
import torch
from torch import Tensor, nn

from rankzero.errors import UserError
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.models.two_towers import STAGES, TwoTowers, TwoTowersConfig, contrastive_loss

TEXT = GPTConfig(vocab_size=32, block_size=8, n_layer=2, n_head=2, hidden_dim=32)


def make_model() -> TwoTowers:
    torch.manual_seed(0)
    return TwoTowers(TwoTowersConfig(channels=1, text=TEXT))


def pairs(count: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(count, 1, 8, 8), torch.randint(32, (count, 8))


def test_logits_are_scaled_cosines_of_all_pairs() -> None:
    model, (images, tokens) = make_model(), pairs(6)
    logits = model(images, tokens)
    assert logits.shape == (6, 6)
    assert logits.abs().max() <= 1 / 0.07 + 1e-4
    # Pictures and captions meet in no layer: a single pair has the same logit as in the batch.
    torch.testing.assert_close(model(images[2:3], tokens[2:3])[0, 0], logits[2, 2])


@pytest.mark.parametrize("count", [2, 5])
def test_equal_logits_cost_the_logarithm_of_the_batch(count: int) -> None:
    assert contrastive_loss(torch.zeros(count, count)).item() == pytest.approx(math.log(count))


def test_the_loss_asks_rows_and_columns_alike() -> None:
    logits = torch.randn(4, 4)
    torch.testing.assert_close(contrastive_loss(logits), contrastive_loss(logits.T))
    assert contrastive_loss(100 * torch.eye(4)) < 1e-6


def test_it_learns_a_batch_by_heart() -> None:
    model, (images, tokens) = make_model(), pairs(16)
    optimizer = torch.optim.AdamW(model.begin_stage("everything"), lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        loss = contrastive_loss(model(images, tokens))
        loss.backward()
        optimizer.step()
        model.limit_scale()
    assert loss.item() < 0.1
    assert model(images, tokens).argmax(1).tolist() == list(range(16))


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_trains_its_parts_and_no_other(stage: str) -> None:
    model, (images, tokens) = make_model(), pairs(4)
    model.begin_stage("everything")
    chosen = model.begin_stage(stage)
    contrastive_loss(model(images, tokens)).backward()
    with_gradient = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert with_gradient == {*STAGES[stage], "log_scale"}
    assert {id(p) for p in chosen} == {id(p) for p in model.parameters() if p.grad is not None}
    modes = {part: module.training for part, module in model.named_children()}
    assert modes == {part: part in STAGES[stage] for part in modes}


def test_an_unknown_stage_is_named() -> None:
    with pytest.raises(UserError, match=r"there is no stage 'both'.*projections, text tower too, everything"):
        make_model().begin_stage("both")


def test_the_scale_stays_below_its_limit() -> None:
    model = make_model()
    nn.init.constant_(model.log_scale, 7.0)
    model.limit_scale()
    assert model.log_scale.exp().item() == pytest.approx(100)
