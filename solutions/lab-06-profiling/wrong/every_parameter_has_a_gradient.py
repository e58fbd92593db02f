"""`.grad` is read of every parameter. Before the first backward it is None, after `zero_grad` too, and for a frozen
parameter always."""

import math

EXERCISE = "watch"
FAILS = ("watch/norm",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


def gradient_norm(module):
    return math.sqrt(sum(p.grad.square().sum().item() for p in module.parameters()))
