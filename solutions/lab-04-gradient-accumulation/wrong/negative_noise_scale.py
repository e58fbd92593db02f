"""The quotient is returned as it is. Where the noise drowns the signal, the estimate of |G|^2 is negative, and so is
this "noise scale": a batch size below 0. It says that no signal was found."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/no-signal",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_scale(steps, micro_batch):
    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]  # noqa: F821
    signal = sum(one for one, _ in estimates) / len(estimates)
    noise = sum(one for _, one in estimates) / len(estimates)
    return noise / signal
