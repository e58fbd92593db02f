"""Starter of Lab 09, killed at named stages of a step, a save and a restart: no checkpoint and no loss is changed."""

import functools
import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch.distributed as dist
from starters import TINY, Starter, losses

from rankzero.learn.distributed.sharded_checkpoint import finished_folders, read_folder

LAB09 = Starter("09")
starter = LAB09.module
EVERY, KEEP, STEPS = 4, 2, 32  # steps between two saves; checkpoints that stay; steps of the run


class Stage(NamedTuple):
    """A moment: just before the `call`-th call of a function in the process of one rank, counted from `since` on."""

    name: str
    function: str  # of the starter, or as "module:function" or "module:class.function"
    call: int = 1
    since: str = "step"  # the first step of this start; or "start", to count the calls of the restart too


DISK = "rankzero.learn.distributed.sharded_checkpoint:"
WRITER = "torch.distributed.checkpoint.filesystem:"
RESUME = "rankzero.learn.resume.resumable_run:"
STAGES = (
    Stage("before the first step", "train_step"),
    Stage("between an update and the average", "move_average", 3),
    Stage("in the validation before a save", "evaluate"),
    Stage("before the state is copied", "training_state"),
    Stage("before a rank's file is written", f"{WRITER}FileSystemWriter.write_data"),
    Stage("in the middle of a rank's file", f"{WRITER}_write_item", 9),
    Stage("in the step after the copy", "train_step", EVERY + 1),
    Stage("before the next save", "train_step", 2 * EVERY),
    Stage("while a checkpoint is loaded", "set_state_dict", 1, "start"),
    Stage("after the load, before the first step", "finish_step_on_interrupt", 1, "start"),
)
STAGES_OF_RANK_0 = (
    Stage("files written, index missing", f"{WRITER}FileSystemWriter.finish"),
    Stage("while the digests are computed", f"{DISK}_digest", 2),
    Stage("run.json not synced", f"{DISK}_to_disk", 1),
    Stage("before the rename", f"{DISK}_to_disk", 2),
    Stage("renamed, folder not synced", f"{DISK}_to_disk", 3),
    Stage("before the oldest is removed", f"{DISK}_superfluous"),
    Stage("oldest renamed, not removed", "shutil:rmtree"),
    Stage("while partial folders are removed", f"{RESUME}remove_partial_folders", 1, "start"),
    Stage("before the log is cut back", f"{RESUME}keep_log_until", 1, "start"),
    Stage("after the log was cut back", "shard", 1, "start"),
)


def dies_before(function: Callable[..., Any], call: int) -> Callable[..., Any]:
    """Returns `function`, which kills its process with SIGKILL at its `call`-th call."""
    left = call

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    return counted


def train_and_die(stage: Stage, rank: int, train: Callable[..., int], options: Any, saved: Any) -> int:
    """Trains; process number `rank` dies at the stage."""
    names, original_step = train.__globals__, train.__globals__["train_step"]

    def arm() -> None:
        module, _, path = stage.function.rpartition(":")
        if not module:
            names[stage.function] = dies_before(names[stage.function], stage.call)
            return
        owner: Any = importlib.import_module(module)
        *classes, function = path.split(".")
        owner = functools.reduce(getattr, classes, owner)
        setattr(owner, function, dies_before(getattr(owner, function), stage.call))

    def first_step(*arguments: Any) -> Any:
        names["train_step"] = original_step
        arm()
        return names["train_step"](*arguments)

    if dist.get_rank() == rank:
        if stage.since == "start":
            arm()
        else:
            names["train_step"] = first_step
    return train(options, saved)


def start(folder: Path, ranks: int, *, steps: int = STEPS, every: int = EVERY) -> int:
    sizes = (*TINY, "--ranks", str(ranks), "--steps", str(steps), "--eval-every", str(every), "--keep", str(KEEP))
    return int(starter.main([*sizes, "--folder", str(folder)]))


def intact_steps(folder: Path) -> list[int]:
    """Returns the steps of the finished checkpoints, newest first, whose digests are all verified."""
    return [read_folder(path, settings=starter.LAB_SETTINGS)["step"] for path in finished_folders(folder)]


@pytest.mark.parametrize(
    ("ranks", "stages"),
    [(1, [(stage, 0) for stage in STAGES_OF_RANK_0]), (2, [(stage, 1) for stage in STAGES])],
    ids=["one process", "two ranks"],
)
def test_a_kill_at_each_stage_loses_no_checkpoint_and_changes_no_loss(
    ranks: int,
    stages: list[tuple[Stage, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder, before, train = tmp_path / "run", [0], starter.train
    assert start(folder, ranks, steps=KEEP * EVERY) == 0
    for stage, rank in stages:
        with monkeypatch.context() as patched:
            patched.setattr(starter, "train", functools.partial(train_and_die, stage, rank, train))
            assert start(folder, ranks) == 1, f"the run did not reach the stage {stage.name!r}"
        assert "was killed by SIGKILL" in capfd.readouterr().err
        after = intact_steps(folder)
        assert after[0] >= before[0], f"killed {stage.name}: the newest checkpoint was lost"
        assert len(after) >= KEEP
        before = after
    assert start(folder, ranks) == 0
    assert start(tmp_path / "whole", ranks, every=STEPS) == 0
    assert losses(folder) == losses(tmp_path / "whole")
    assert not list(folder.glob("*.partial"))
