"""The small batch's number is the square of the mean norm, not the mean of the squared norms. The square of a mean is
always the smaller one, so noise is underestimated, and the estimate of |G|^2 is biased."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/signal", "noise_scale/noise")
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_estimates(gradients, micro_batch):
    small, big = micro_batch, len(gradients) * micro_batch
    norm_small = gradients.norm(dim=1).mean().item() ** 2
    norm_big = gradients.mean(0).square().sum().item()
    signal = (big * norm_big - small * norm_small) / (big - small)
    noise = (norm_small - norm_big) / (1 / small - 1 / big)
    return signal, noise
