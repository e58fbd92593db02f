"""The learner's functions in Lab 15's starter: `rankzero run 15 --mine`.

The learner's AdamW trains every trial, in groups, and the learner's median rule decides which trials end early. The
first trials draw their settings at random, so both runs try the same ones.
"""

from pathlib import Path
from typing import Any

import optuna
from torch import nn
from torch.optim import Optimizer

USES = ("adam_step", "adamw_step", "optimizer_step", "should_prune")  # functions whose exercises must pass first
OPTIONS = ("--device", "cpu", "--trials", "10")  # of the starter, for both runs
ROUNDING = 1e-3  # hundreds of updates amplify rounding, most at the highest rates that a trial draws


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    optimizer_step, adamw_step, should_prune = learner.optimizer_step, learner.adamw_step, learner.should_prune

    class LearnersAdamW(Optimizer):
        def __init__(self, groups: list[dict[str, Any]]) -> None:
            super().__init__(groups, {})
            self.states: dict[Any, dict[str, Any]] = {}

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            optimizer_step(self.param_groups, self.states, adamw_step)

    def make_optimizer(model: nn.Module, setting: dict[str, Any]) -> Optimizer:
        how = {"lr": setting["lr"], "betas": (0.9, setting["beta2"]), "weight_decay": setting["weight_decay"]}
        parameters = list(model.parameters())
        return LearnersAdamW([{"params": parameters[:1], **how}, {"params": parameters[1:], **how}])

    class LearnersPruner(optuna.pruners.BasePruner):
        def __init__(self, warmup_steps: int) -> None:
            self.warmup_steps = warmup_steps

        def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
            trials = starter.report.records(study.get_trials(deepcopy=False))
            (own,) = (record for record in trials if record["number"] == trial.number)
            return bool(should_prune(own, trials, startup_trials=5, warmup_steps=self.warmup_steps))

    open_with_pruner = starter.open_study

    def open_study(storage: Path, pruner: Any, settings: Any, *, first: Any) -> optuna.Study:
        study: optuna.Study = open_with_pruner(storage, LearnersPruner(settings["tokens"] // 4), settings, first=first)
        return study

    return {"make_optimizer": make_optimizer, "open_study": open_study}
