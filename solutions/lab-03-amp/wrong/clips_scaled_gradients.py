"""Clipping comes before unscaling, so it measures a norm that is larger by the scale. Nearly every gradient is then
cut to max_norm and divided by 65,536 afterwards: the update nearly vanishes, and with AdamW, which divides by the
gradient's size, nobody notices for long."""

import torch
import torch.nn.functional as F
from torch import nn

EXERCISE = "scaled_step"
FAILS = ("scaled_step/clip",)
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
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    finite = unscale(model.parameters(), scale)
    if finite:
        optimizer.step()
    return loss.item(), finite
