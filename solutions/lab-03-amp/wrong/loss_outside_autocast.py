"""The model runs under autocast and the loss does not. Logits leave the last matrix product in 16 bits, and without
autocast cross_entropy takes them as they are: the loss itself is rounded to 3 digits. Inside the block it is on the
fp32 list."""

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
    with torch.autocast("cpu", dtype=low):
        logits = model(x)
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    (loss * scale).backward()
    finite = unscale(model.parameters(), scale)
    if finite:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return loss.item(), finite
