"""min(1, max_norm / norm) fails for a gradient that is 0 everywhere: Python raises ZeroDivisionError, and a tensor
makes inf of it. Ask first whether the norm is over the limit: then it is not 0."""

import math

EXERCISE = "clip_once"
FAILS = ("clip_once/limit",)
READ = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    factor = min(1.0, max_norm / norm)
    for gradient in gradients:
        gradient.mul_(factor)
    return norm
