"""A parameter without a gradient gets one of zeros, so that the loop has something to square. The norm is right, but
None and zero differ: the optimizer now moves a frozen parameter by its weight decay."""

import math

import torch

EXERCISE = "clip_once"
FAILS = ("clip_once/none",)
READ = "handbook/gradient-mechanics.md#none-is-not-zero"


def clip_gradients(parameters, max_norm):
    parameters = list(parameters)
    for p in parameters:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in parameters))
    if norm > max_norm:
        for p in parameters:
            p.grad.mul_(max_norm / norm)
    return norm
