"""B_b and B_s are swapped: the mean of the rows is taken for the small batch and a row for the large one. The
estimates then come out with wrong signs and sizes; |G|^2 is too large and the noise is negative."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/signal", "noise_scale/noise")
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_estimates(gradients, micro_batch):
    small, big = micro_batch, len(gradients) * micro_batch
    norm_small = gradients.mean(0).square().sum().item()
    norm_big = gradients.square().sum(1).mean().item()
    signal = (big * norm_big - small * norm_small) / (big - small)
    noise = (norm_small - norm_big) / (1 / small - 1 / big)
    return signal, noise
