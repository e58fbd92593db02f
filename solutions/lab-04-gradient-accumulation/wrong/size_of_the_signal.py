"""abs() makes the noise scale positive again. A negative estimate of |G|^2 is no small positive one with the wrong
sign; it says that the noise in it is larger than what it estimates."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/no-signal",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_scale(steps, micro_batch):
    estimates = [noise_estimates(gradients, micro_batch) for gradients in steps]  # noqa: F821
    signal = sum(one for one, _ in estimates) / len(estimates)
    noise = sum(one for _, one in estimates) / len(estimates)
    return noise / abs(signal)
