"""Steps whose estimate of |G|^2 is negative are left out. They are no failures: an unbiased estimate of something small
must fall below 0 now and then, and those above balance it. Without them the signal is overestimated."""

import math

EXERCISE = "noise_scale"
FAILS = ("noise_scale/ratio",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_scale(steps, micro_batch):
    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]  # noqa: F821
    above = [(signal, noise) for signal, noise in estimates if signal > 0]
    if not above:
        return math.inf
    return sum(noise for _, noise in above) / sum(signal for signal, _ in above)
