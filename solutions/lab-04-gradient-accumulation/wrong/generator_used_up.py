"""`parameters` is looped over twice. model.parameters() is a generator: after the first loop it is empty, so the
second one finds nothing to clip, and says nothing. Keep the gradients in a list."""

import math

EXERCISE = "clip_once"
FAILS = ("clip_once/direction",)
READ = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"


def clip_gradients(parameters, max_norm):
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in parameters if p.grad is not None))
    if norm > max_norm:
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
    return norm
