"""Gradients that are not finite are set to 0, and the step is taken. That is an update all the same: AdamW's
averages still push, weight decay still shrinks, and the step count moves on. A skipped step leaves no trace."""

import torch
import torch.nn.functional as F
from torch import nn

EXERCISE = "scaled_step"
FAILS = ("scaled_step/skip",)
READ = "labs/lab-03-amp.md#mental-model"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            finite = finite and bool(parameter.grad.isfinite().all())
    return finite


def scaled_step(model, optimizer, x, y, scale, max_norm, low=torch.float16):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=low):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    (loss * scale).backward()
    finite = unscale(model.parameters(), scale)
    if not finite:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item(), finite
