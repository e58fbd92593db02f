"""Claims of handbook/optimizers.md: checkpoints."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.optim import Adam, AdamW

from rankzero.claims.claim import claim

from .shared import moves, noise, rms


@claim(
    "optimizer-state-goes-by-position",
    "load_state_dict gives state to parameters by their order, not by name: two parameters of one shape that are "
    "swapped get each other's averages, without an error. It also replaces the constructor's rate by the saved one.",
    expected={"average saved of a": 0.1, "average loaded into a": 10, "rate asked for": 0.5, "rate loaded": 0.1},
    tolerance=1e-6,
    unit="",
)
def state_by_position() -> Mapping[str, float]:
    """Steps once with gradients 1 and 100, saves, and loads into an optimizer that got the parameters swapped."""
    a, b = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    first = AdamW([a, b], lr=0.1)
    a.grad, b.grad = torch.ones(3), 100 * torch.ones(3)
    first.step()
    second = AdamW([b, a], lr=0.5)
    asked = second.param_groups[0]["lr"]
    second.load_state_dict(first.state_dict())
    return {
        "average saved of a": first.state[a]["exp_avg"][0].item(),
        "average loaded into a": second.state[a]["exp_avg"][0].item(),
        "rate asked for": asked,
        "rate loaded": second.param_groups[0]["lr"],
    }


@claim(
    "first-step-after-lost-state",
    "Without its saved averages, Adam's first step after a restart is {expected} times as long as its usual step on "
    "noise.",
    expected=4.4,
    tolerance=0.1,
    unit="times the usual step",
)
def lost_state() -> float:
    """Updates 10,000 weights with 300 batches of noise; divides a new Adam's first update by the old Adam's, as rms."""
    gradients = noise(300, size=10_000)
    usual = rms(moves(lambda p: Adam(p, lr=1.0), gradients)[-1])
    return rms(moves(lambda p: Adam(p, lr=1.0), gradients[-1:])[0]) / usual
