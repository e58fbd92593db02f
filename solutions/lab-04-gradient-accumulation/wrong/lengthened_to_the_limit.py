"""Every gradient is scaled to max_norm, the short ones too. That is normalizing, not clipping: near a minimum, where
gradients are small, each update is as long as ever. And a gradient of length 0 is divided by 0."""

import math

import torch.nn.functional as F
from torch import nn

EXERCISE = "clip_once"
FAILS = ("clip_once/limit",)
READ = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    for gradient in gradients:
        gradient.mul_(max_norm / (norm + 1e-6))
    return norm


def clipped_update(model, optimizer, micro_batches, max_norm):
    optimizer.zero_grad(set_to_none=True)
    for x, y in micro_batches:
        (F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(micro_batches)).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
    optimizer.step()
    return norm
