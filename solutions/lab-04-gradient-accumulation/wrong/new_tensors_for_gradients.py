"""p.grad is replaced by a new, shorter tensor. The numbers are right, but for a moment each gradient is there twice,
and whoever holds the old tensor, such as DDP with its buckets that p.grad views, now has another one than the
optimizer. Multiply in place."""

import math

EXERCISE = "clip_once"
FAILS = ("clip_once/direction",)
READ = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"


def clip_gradients(parameters, max_norm):
    parameters = [p for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in parameters))
    if norm > max_norm:
        for p in parameters:
            p.grad = p.grad * (max_norm / norm)
    return norm
