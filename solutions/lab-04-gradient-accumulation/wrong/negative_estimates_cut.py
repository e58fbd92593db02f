"""Each negative estimate of |G|^2 is raised to 0 before they are averaged. A square cannot be negative, but an unbiased
estimate of one can, and has to: cut at 0, the estimates are too large on average. Test the average, not each."""

import math

EXERCISE = "noise_scale"
FAILS = ("noise_scale/ratio",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_scale(steps, micro_batch):
    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]  # noqa: F821
    signal = sum(max(one, 0.0) for one, _ in estimates)
    noise = sum(one for _, one in estimates)
    return noise / signal if signal > 0 else math.inf
