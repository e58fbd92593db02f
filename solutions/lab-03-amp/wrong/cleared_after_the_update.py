"""The gradients are cleared after an update, so a skipped step leaves its inf behind. The next backward adds to it,
inf plus anything is inf, and every step from then on is skipped. The run stands still while the scale falls to 0."""

import torch
import torch.nn.functional as F
from torch import nn

EXERCISE = "scaled_step"
FAILS = ("scaled_step/stale",)
READ = "labs/lab-03-amp.md#mental-model"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            finite = finite and bool(parameter.grad.isfinite().all())
    return finite


def scaled_step(model, optimizer, x, y, scale, max_norm, low=torch.float16):
    with torch.autocast("cpu", dtype=low):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    (loss * scale).backward()
    finite = unscale(model.parameters(), scale)
    if finite:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item(), finite
