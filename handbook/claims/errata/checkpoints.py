"""Claims of handbook/errata.md, section *Checkpoints*."""

import copy
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import gradient
from rankzero.claims.toolkit.lab_model import TINY, next_token_loss, seeded_gpt


@claim(
    "errata-scheduler-forgotten",
    "A cosine schedule resumed halfway from model and optimizer alone ends at {expected[resumed]} % of its peak "
    "rate, not at {expected[never stopped]}.",
    expected={"never stopped": 0, "resumed": 25},
    unit="% of the peak rate",
    tolerance=1e-6,
)
def scheduler_forgotten() -> Mapping[str, float]:
    """Runs 10 steps; and 5 steps, then 5 more with a new scheduler and an optimizer that loads the old one's state."""

    def start() -> tuple[AdamW, CosineAnnealingLR]:
        optimizer = AdamW([nn.Parameter(torch.ones(1))], lr=1.0)
        return optimizer, CosineAnnealingLR(optimizer, T_max=10)

    def run(optimizer: AdamW, scheduler: CosineAnnealingLR, steps: int) -> float:
        for _ in range(steps):
            optimizer.step()
            scheduler.step()
        return 100 * float(optimizer.param_groups[0]["lr"])

    optimizer, scheduler = start()
    run(optimizer, scheduler, 5)
    resumed, fresh = start()
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return {"never stopped": run(optimizer, scheduler, 5), "resumed": run(resumed, fresh, 5)}


class SignalDuringUpdate(TorchDispatchMode):
    """Sends SIGTERM to this process when the optimizer is about to move the given parameter tensor."""

    def __init__(self, tensor: int) -> None:
        super().__init__()
        self.left = tensor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.addcdiv_.default:
            self.left -= 1
            if not self.left:
                signal.raise_signal(signal.SIGTERM)
        return func(*args, **(kwargs or {}))


def train_until_sigterm(file: Path) -> None:
    """One step of a tiny GPT whose SIGTERM handler saves at once. The file also gets the states before and after."""
    model, tokens = seeded_gpt(TINY)
    whole = copy.deepcopy(model)
    states: dict[str, Any] = {"before": copy.deepcopy(model.state_dict())}
    gradient(whole, lambda: next_token_loss(whole, tokens))
    AdamW(whole.parameters(), lr=1e-3).step()
    states["after"] = whole.state_dict()
    optimizer = AdamW(model.parameters(), lr=1e-3)

    def save_and_exit(signum: int, frame: object) -> None:
        torch.save(states | {"step": 0, "model": model.state_dict()}, file)
        os._exit(0)

    signal.signal(signal.SIGTERM, save_and_exit)
    gradient(model, lambda: next_token_loss(model, tokens))
    with SignalDuringUpdate(tensor=5):
        optimizer.step()


@claim(
    "errata-save-in-the-handler",
    "A SIGTERM handler that saves in mid-update writes a model that never was: of 9 tensors 4 new, "
    "{expected[of neither]} half done, 4 old.",
    expected={"of the new step": 4, "of the old step": 4, "of neither": 1},
    unit="tensors",
)
def save_in_the_handler() -> Mapping[str, float]:
    """Sends a training process SIGTERM while AdamW works on its fifth tensor, and compares the file it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint.pt"
        process = multiprocessing.get_context("spawn").Process(target=train_until_sigterm, args=(file,))
        process.start()
        process.join(60)
        saved = torch.load(file)
    names = [name for name in saved["model"] if name != "head.weight"]  # tied to the embedding: the same tensor
    new = sum(torch.equal(saved["model"][name], saved["after"][name]) for name in names)
    old = sum(torch.equal(saved["model"][name], saved["before"][name]) for name in names)
    return {"of the new step": new, "of the old step": old, "of neither": len(names) - new - old}


@claim(
    "errata-newest-deleted",
    "Keeping the last 3 of sorted names padded to 6 digits deletes the checkpoint of step 1,000,000 as the oldest.",
    expected={"newest left": 999_900, "files left": 3},
    unit="",
)
def newest_deleted() -> Mapping[str, float]:
    """Writes a file each 100 steps up to step 1,000,000, each time deletes all but the last 3 of the sorted names."""
    with tempfile.TemporaryDirectory() as folder:
        for step in range(999_500, 1_000_001, 100):
            (Path(folder) / f"ckpt_step{step:06d}.pt").touch()
            for old in sorted(Path(folder).glob("ckpt_*.pt"))[:-3]:
                old.unlink()
        left = [int(file.stem.removeprefix("ckpt_step")) for file in Path(folder).iterdir()]
    return {"newest left": max(left), "files left": len(left)}
