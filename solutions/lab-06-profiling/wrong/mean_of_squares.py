"""The mean of the squares is taken, where their sum is asked for. That is a root mean square: it says how large a
typical slope is, not how far the parameters move together, and it cannot be compared with the norm that clipping
uses."""

import math

EXERCISE = "watch"
FAILS = ("watch/norm",)
READ = "handbook/profiling-and-roofline.md#looking-inside-with-hooks"


def gradient_norm(module):
    gradients = [p.grad.flatten() for p in module.parameters() if p.grad is not None]
    return math.sqrt(sum(g.square().sum().item() for g in gradients) / max(1, sum(len(g) for g in gradients)))
