"""The learner's functions in Lab 06's starter: `rankzero run 06 --mine`.

`watch` must not change what it watches: the losses stay the same, bit for bit. `phase_fractions` accounts for the time
of the run's own trace, as the starter's `account` does.
"""

from typing import Any

from torch import Tensor, nn

from rankzero.errors import UserError

USES = ("watch", "phase_fractions")  # functions whose exercises must pass first
OPTIONS = ("--active", "16")  # of the starter, for both runs; options on the command line take precedence
ROUNDING = 0.0  # watching changes no bit
SHARE = 0.001  # largest difference of a phase's fraction between two ways to account for one trace


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    watch, phase_fractions = learner.watch, learner.phase_fractions
    train_steps, account = starter.train_steps, starter.account

    def watched_steps(model: nn.Module, *others: Any) -> list[Tensor]:
        blocks = {f"block {number}": block for number, block in enumerate(model.get_submodule("blocks").children())}
        with watch(blocks):
            return train_steps(model, *others)

    def own_account(events: list[Any]) -> tuple[float, dict[str, float]]:
        _, expected = account(events)
        median, fractions = phase_fractions(events, 0)  # the trace holds measured steps only
        for name, fraction in expected.items():
            if not abs(fractions.get(name, 0.0) - fraction) <= SHARE:
                raise UserError(
                    f"phase_fractions says {fractions.get(name, 0.0):.4f} for {name!r} where the starter's account of "
                    f"the same trace says {fraction:.4f}: `rankzero check 06 phase_fractions` says why."
                )
        return median, fractions

    return {"train_steps": watched_steps, "account": own_account}
