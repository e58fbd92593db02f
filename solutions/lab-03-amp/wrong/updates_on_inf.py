"""The step is taken whether or not the gradients are finite. One overflow, which a growing scale brings about on
purpose, and the weights are nan for good. The verdict has to decide about the update."""

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
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item(), finite
