"""What is returned is the norm after the clipping. It never says more than max_norm: a run that logs it shows a flat
line at the limit, and the spike that you clipped for is invisible. Return the one from before."""

import math

EXERCISE = "clip_once"
FAILS = ("clip_once/norm",)
READ = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
