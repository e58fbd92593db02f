"""The learner's functions in Lab 02's starter: `rankzero run 02 --mine`."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

USES = (
    "train_step",
    "evaluate",
    "learning_rate",
    "save_checkpoint",
    "load_checkpoint",
)  # functions whose exercises must pass first
OPTIONS = ("--device", "cpu", "--steps", "200", "--eval-every", "100")  # of the starter, for both runs
ROUNDING = 1e-6  # the same operations in the same order


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    own_step, own_evaluate, own_rate = learner.train_step, learner.evaluate, learner.learning_rate
    own_save, own_load = learner.save_checkpoint, learner.load_checkpoint

    def train_step(
        model: nn.Module,
        optimizer: Optimizer,
        x: Tensor,
        y: Tensor,
        after: Callable[[str], None] = lambda phase: None,
    ) -> Tensor:
        loss, _ = own_step(model, optimizer, x, y, math.inf)
        for phase in ("forward", "backward", "update"):
            after(phase)
        return torch.tensor(loss)

    def learning_rate(step: int, peak: float, warmup_steps: int, decay_steps: int) -> float:
        floor = peak / 10 if decay_steps else peak  # without decay the rate is constant
        return float(own_rate(step, peak, warmup_steps, max(decay_steps, warmup_steps + 1), floor))

    def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
        return math.fsum(positions := own_evaluate(model, batches)) / len(positions)

    def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, **state: Any) -> None:
        """Saves, forgets everything, and goes on with what is read back: what was not saved changes the next loss."""
        own_save(path, model, optimizer, state["step"])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        optimizer.state.clear()
        own_load(path, model, optimizer)

    functions = (train_step, learning_rate, evaluate, save_checkpoint)
    return {function.__name__: function for function in functions}
