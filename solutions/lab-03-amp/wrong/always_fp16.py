"""fp16 is written into the code and `low` is ignored. A run that was meant to be bf16 then has fp16's range, and
overflows where bf16 would not."""

import torch
import torch.nn.functional as F
from torch import nn

EXERCISE = "scaled_step"
FAILS = ("scaled_step/formats",)
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
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    (loss * scale).backward()
    finite = unscale(model.parameters(), scale)
    if finite:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return loss.item(), finite
