"""The ratio of one step is returned. A single step's estimate of |G|^2 is so noisy that it is often negative; that is
why several are averaged."""

import math

EXERCISE = "noise_scale"
FAILS = ("noise_scale/ratio",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_scale(steps, micro_batch):
    signal, noise = noise_estimates(steps[-1], micro_batch)  # noqa: F821
    return noise / signal if signal > 0 else math.inf
