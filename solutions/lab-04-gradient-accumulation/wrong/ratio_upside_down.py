"""|G|^2 / tr(S) is the signal-to-noise ratio of one sequence. The noise scale is its inverse: the number of sequences
at which noise and signal are equal."""

import math

EXERCISE = "noise_scale"
FAILS = ("noise_scale/ratio",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_scale(steps, micro_batch):
    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]  # noqa: F821
    signal = sum(one for one, _ in estimates) / len(estimates)
    noise = sum(one for _, one in estimates) / len(estimates)
    return signal / noise if signal > 0 else math.inf
