"""The large batch's gradient is taken as the sum of the rows. It is their mean: each row is itself a mean over its
micro-batch. The sum is k times as long, its square k^2 times."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/signal", "noise_scale/noise")
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_estimates(gradients, micro_batch):
    small, big = micro_batch, len(gradients) * micro_batch
    norm_small = gradients.square().sum(1).mean().item()
    norm_big = gradients.sum(0).square().sum().item()
    signal = (big * norm_big - small * norm_small) / (big - small)
    noise = (norm_small - norm_big) / (1 / small - 1 / big)
    return signal, noise
