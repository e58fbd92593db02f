"""The variance divides by k where the mean was taken from the same k rows: it should be k - 1. With two rows that
halves the noise."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/noise",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_estimates(gradients, micro_batch):
    small, big = micro_batch, len(gradients) * micro_batch
    norm_small = gradients.square().sum(1).mean().item()
    norm_big = gradients.mean(0).square().sum().item()
    signal = (big * norm_big - small * norm_small) / (big - small)
    return signal, small * gradients.var(0, correction=0).sum().item()
