"""Each step's own ratio is averaged. One step whose estimate of |G|^2 happens to be near 0 then has a huge ratio, of
either sign, and decides the mean. Average numerator and denominator first, then divide."""

import math

EXERCISE = "noise_scale"
FAILS = ("noise_scale/ratio",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_scale(steps, micro_batch):
    ratios = []
    for gradients in steps:
        signal, noise = noise_estimates(gradients, micro_batch)  # noqa: F821
        ratios.append(noise / signal if signal > 0 else math.inf)
    return sum(ratios) / len(ratios)
