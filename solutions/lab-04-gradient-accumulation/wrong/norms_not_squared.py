"""Lengths are used where squared lengths belong. It is the squared length that grows by tr(S)/B: the equations that
were solved hold for squares only."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/signal", "noise_scale/noise")
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_estimates(gradients, micro_batch):
    small, big = micro_batch, len(gradients) * micro_batch
    norm_small = gradients.norm(dim=1).mean().item()
    norm_big = gradients.mean(0).norm().item()
    signal = (big * norm_big - small * norm_small) / (big - small)
    noise = (norm_small - norm_big) / (1 / small - 1 / big)
    return signal, noise
