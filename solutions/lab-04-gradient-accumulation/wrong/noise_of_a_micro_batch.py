"""The variance between the rows is that of a micro-batch's gradient. S is the covariance of one sequence's gradient,
larger by the micro-batch's size. The noise scale then comes out in micro-batches, not in sequences."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/noise",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_estimates(gradients, micro_batch):
    small, big = micro_batch, len(gradients) * micro_batch
    norm_small = gradients.square().sum(1).mean().item()
    norm_big = gradients.mean(0).square().sum().item()
    signal = (big * norm_big - small * norm_small) / (big - small)
    return signal, gradients.var(0).sum().item()
