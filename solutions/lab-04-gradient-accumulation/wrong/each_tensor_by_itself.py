"""Each tensor is clipped to max_norm by its own norm. Large tensors are shortened, small ones are not, so the gradient
turns: the update no longer follows the slope of the loss. The whole gradient is one vector and has one factor."""

import math

EXERCISE = "clip_once"
FAILS = ("clip_once/direction",)
READ = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm_before = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    for gradient in gradients:
        gradient.mul_(min(1.0, max_norm / max(gradient.norm().item(), 1e-12)))
    return norm_before
