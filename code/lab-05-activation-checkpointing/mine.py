"""The learner's functions in Lab 05's starter: `rankzero run 05 --mine`."""

from typing import Any

from torch import Tensor, nn

USES = ("checkpoint",)  # functions whose exercises must pass first
OPTIONS = ("--device", "cpu")  # of the starter, for both runs: the learner's code draws from the CPU's generator
ROUNDING = 0.0  # recomputing changes no bit


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    own_checkpoint = learner.checkpoint

    def checkpoint(run: nn.Module, x: Tensor) -> Any:
        return own_checkpoint(run, x)

    return {"checkpoint": checkpoint}
