"""The squared length of the averaged gradient is taken for |G|^2. It is that plus tr(S)/B_b: noise does not cancel out
of a square. With little signal nearly all of it is noise, and the noise scale comes out near the batch size
whatever it is."""

EXERCISE = "noise_scale"
FAILS = ("noise_scale/signal",)
READ = "handbook/gradient-mechanics.md#how-much-of-a-gradient-is-noise"


def noise_estimates(gradients, micro_batch):
    small, big = micro_batch, len(gradients) * micro_batch
    norm_small = gradients.square().sum(1).mean().item()
    norm_big = gradients.mean(0).square().sum().item()
    return norm_big, (norm_small - norm_big) / (1 / small - 1 / big)
