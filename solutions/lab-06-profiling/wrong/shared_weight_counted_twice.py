"""A layer that is used in two places is counted in both. It has one gradient, to which both places add; so it counts
once."""

import math

EXERCISE = "watch"
FAILS = ("watch/norm",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


def gradient_norm(module):
    every = [p for _, p in module.named_parameters(remove_duplicate=False)]
    return math.sqrt(sum(p.grad.square().sum().item() for p in every if p.grad is not None))
