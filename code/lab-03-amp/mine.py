"""The learner's functions in Lab 03's starter: `rankzero run 03 --mine`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rankzero.errors import UserError

USES = ("update_scale", "unscale", "scaled_step")  # functions whose exercises must pass first
# Of the starter, for both runs; options on the command line take precedence. A CPU is slow in fp16, hence a small
# model, and `scaled_step` runs under autocast of the CPU. The first scales overflow.
OPTIONS = (
    *("--precision", "fp16", "--device", "cpu", "--steps", "100", "--eval-every", "50"),
    *("--layers", "2", "--hidden-dim", "64", "--block-size", "32", "--growth-interval", "50"),
)
ROUNDING = 1e-6  # the same operations in the same order


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    scaled_step, update_scale, max_norm = learner.scaled_step, learner.update_scale, starter.MAX_NORM
    overflows = 0

    def train_step(
        model: nn.Module,
        optimizer: Optimizer,
        x: Tensor,
        y: Tensor,
        low: torch.dtype | None,
        scaler: Any,
        after: Callable[[str], None] = lambda phase: None,
    ) -> Tensor:
        nonlocal overflows
        if low is None:
            raise UserError("scaled_step computes in bf16 or fp16: leave --precision fp32 out.")
        loss, updated = scaled_step(model, optimizer, [(x, y)], scaler.scale, max_norm, low)
        after("forward")
        after("backward")
        if scaler.enabled:
            numbers = update_scale(scaler.scale, scaler.good_steps, overflows, updated, scaler.growth_interval)
            scaler.scale, scaler.good_steps, overflows = numbers
            scaler.skipped += not updated
        after("update")
        return torch.tensor(loss)

    return {"train_step": train_step}
