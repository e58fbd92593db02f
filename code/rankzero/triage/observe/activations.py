"""Activations: units of ReLU that are 0 for every item of several batches."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.triage.observe.model_watch import ModelWatch
from rankzero.triage.observe.watch import Watch, plain

KEPT = 8  # batches over which a unit must be 0


def install(watch: Watch) -> None:
    """Observes ReLU in training forward passes, as a function and as a module."""
    for owner, name in ((F, "relu"), (torch, "relu"), (Tensor, "relu")):
        setattr(owner, name, _observed(getattr(owner, name), watch))


def _observed(function: Any, watch: Watch) -> Any:
    def observed(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or watch.busy or watch.current is None:
            return function(*args, **kwargs)
        model, watch.busy = watch.current, True  # F.relu calls torch.relu
        try:
            output = function(*args, **kwargs)
        finally:
            watch.busy = False
        if torch.is_grad_enabled() and plain(output) and output.dim() >= 2:
            with watch.looking():
                _note(watch, model, output.detach())
        return output

    return observed


def _note(watch: Watch, model: ModelWatch, output: Tensor) -> None:
    """Notes which units were not 0: channels of [B, C, H, W], else the last dimension."""
    place = model.relus
    model.relus += 1
    if len(model.record.steps) > 30 and not watch.affordable():
        return
    items = [0, 2, 3] if output.dim() == 4 else list(range(output.dim() - 1))
    alive = (output != 0).any(dim=items[0]) if len(items) == 1 else (output != 0).sum(dim=items) > 0
    looks = model.alive_units.setdefault(place, [])
    if looks and looks[-1].shape != alive.shape:
        looks.clear()
    looks.append(alive)
    del looks[:-KEPT]
    if len(looks) == KEPT:
        model.record.dead[f"ReLU {place + 1}"] = 1 - float(torch.stack(looks).any(0).float().mean())
