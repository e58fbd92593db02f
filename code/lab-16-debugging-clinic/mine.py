"""The learner's cures in Lab 16's clinic: `rankzero run 16 --mine`.

Each patient's healthy twin is the learner's cure in place of the solution's, so that the twins' losses must agree.
"""

from collections.abc import Callable
from typing import Any

USES = tuple(f"cure_{number:02d}" for number in range(1, 21))  # of one process; their exercises must pass first
OPTIONS = ("--device", "cpu")  # of the starter, for both runs
ROUNDING = 1e-2  # other right operations round in another order, which a hundred steps amplify
PROGRESS = ("  0", "  1", "  2")  # how the rows of the ward begin


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    cures: dict[str, Callable[..., Any]] = {number: getattr(learner, f"cure_{number}") for number in starter.PATIENTS}
    return {"cure_of": cures.__getitem__}
