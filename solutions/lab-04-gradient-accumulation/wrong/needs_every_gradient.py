"""Every parameter is asked for its gradient. A frozen parameter, or one that this forward pass did not use, has None
there, and None has no squares."""

import math

EXERCISE = "clip_once"
FAILS = ("clip_once/none",)
READ = "handbook/gradient-mechanics.md#none-is-not-zero"


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
